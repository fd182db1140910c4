/* What the compiled engine's kernels share with the Python binding: their arguments and tables of functions.
 *
 * Kernels are compiled once for each instruction set (-DLEVEL=avx2); the binding picks the best that the processor has.
 */
#include <stddef.h>
#include <stdint.h>

#ifndef NUMBERS /* segments.c knows the layout of its own memory */
#define NUMBERS void
#define STEP void
#define GROUP void
#endif

/* Observations, and what is known of the columns. */
typedef struct {
    int64_t n_states, n_single, n_features, n_rows, length, n_gaps;
    int64_t n_triples; /* states come alone, then in pairs, then in so many blocks of three */
    int complete; /* whether all values are observed with weight one: sums over rows are then the same for all columns */
    const double *values, *weights;                                /* (T, D) */
    const double *offset, *reciprocal_noise, *log_norm, *loadings; /* (D,), (D,), (D,) and (K, D) */
    const double *scaled, *products; /* of each column: C' / r, and the lower triangle of C' C / r */
    double *collapsed;               /* as `segments` has them */
    const double *means;             /* (T, K) */
    double *terms;                   /* (T,) */
    const double *moments, *lag_one; /* as `smooth` leaves them for sums */
    const int32_t *next_gap;         /* from each row to the next */
    const double *transition;        /* (U + 1, B, K): A, of row i of a block of B states its column (i + b) mod B */
} observations;

/* Segments of rows side by side, by precisions: see segments.c. */
typedef struct {
    int64_t n_states, n_single, n_rows, length, n_gaps;
    NUMBERS *collapsed; /* of each group and row: precision, lower triangle, and information */
    const int32_t *gap_index;
    /* A, A' Q^-1, A' Q^-1 A and Q^-1 over each gap (U + 1, 2, K): diagonals, and the entries beside them in rows of pairs;
     * and log|Q| (U + 1,). */
    const double *transition, *weight, *known, *inverse, *log_det;
    const STEP *steps; /* the same in all lanes, for each gap; NULL where there are many gaps */
    GROUP *group;
    NUMBERS *rows; /* for each group length + 1 rows: filtered mean, and covariance given the next state */
    double *filtered_means, *terms;
    /* Moments given all rows: all of them, or lower triangles of covariances and of products of means, and of covariances
     * with the next state the diagonals and then, for the states of blocks, row after row what is beside them. */
    double *means, *covariances, *lag_one;
} segments_work;

typedef struct {
    int64_t most_states, size_of_group, size_of_step, size_of_scratch;
    void (*tabulate)(const segments_work *);
    void (*eliminate)(const segments_work *, int64_t first_group, int64_t end_group, char *scratch);
    void (*join)(const segments_work *, int64_t n_groups, double *precision, double *information, char *scratch);
    void (*refilter)(const segments_work *, int64_t first_group, int64_t end_group, char *scratch);
    void (*join_back)(const segments_work *, int64_t n_groups, const double *mean, const double *covariance, char *scratch);
    void (*smooth)(const segments_work *, int64_t first_group, int64_t end_group, int64_t full, char *scratch);
    void (*link)(const segments_work *, int64_t n_groups, int64_t full, char *scratch);
    void (*collapse)(const observations *, int64_t first_group, int64_t end_group);
    void (*likelihoods)(const observations *, int64_t first_row, int64_t end_row);
    void (*add_up)(const observations *, int64_t first_row, int64_t end_row, double *seen, double *residual_moments, double *residual_power, double *transitions, double *room);
} segments_kernels;

/* Row after row by square roots of covariances: see recursions.c. */
typedef struct {
    int64_t n_states, n_features, n_rows, n_gaps;
    int reach;                                 /* A is zero beyond so many places beside its diagonal */
    const double *values, *weights;            /* (T, D) */
    const int32_t *gap_index;                  /* (T + 1,): the last leads to the row after these */
    const double *transition, *innovation;     /* (U + 1, K, K): A, and upper triangles N with Q = N' N */
    const double *loadings, *noise, *offset;   /* (D, K), (D,), (D,) */
    double *filtered_means, *terms;            /* (T, K); (T,): log|B| + |s|^2 of each row */
    double *filtered_covariances;              /* (T, K, K), or NULL where they are not wanted */
    int32_t *slot;                             /* (T,): which gain and root belong to a row */
    double *gain, *root;                       /* (S, K, K): G' and N with Cov(z_t | z_t+1, rows up to t) = N' N */
    double *means, *covariances, *lag_one;     /* as above; covariances (T, K, K) and lag_one (T, K, K) in full */
} rows_work;

typedef struct {
    int64_t (*scratch)(int64_t n_states, int64_t n_features); /* numbers of scratch memory */
    /* From and to the distribution of the last state, mean (K,) and N (K, K) with covariance N' N; gives the number of slots. */
    int64_t (*filter)(const rows_work *, double *mean, double *root, double *scratch);
    /* From the state after the rows, mean and covariance (K, K), to that of the first row. */
    void (*smooth)(const rows_work *, int64_t full, int64_t n_single, int64_t n_triples, double *mean, double *covariance, double *scratch);
    /* Draws of the state after the rows (M, K) become those of the first row; draws (T, M, K) from normals (T, M, K). */
    void (*draw)(const rows_work *, int64_t n_draws, const double *normals, double *after, double *draws, double *scratch);
    /* Scores e and precisions d (T, D) of values given all others: x - e / d is their mean, 1 / d their variance. */
    void (*leave_one_out)(const rows_work *, double *scores, double *precisions, double *states, double *scratch);
    /* Causal filter under Student-t noise with degrees of freedom, by value or by row. */
    void (*filter_student)(const rows_work *, double degrees, int64_t by_row, double *mean, double *root, double *scratch);
} rows_kernels;
