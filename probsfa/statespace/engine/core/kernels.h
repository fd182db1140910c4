/* Interface of the kernels of the compiled engine: their arguments, and tables of their functions for the Python binding.
 *
 * Kernels are compiled once for each instruction set (-DLEVEL=avx2). The binding selects the best set of the processor.
 */
#include <stddef.h>
#include <stdint.h>

#ifndef NUMBERS /* only segments.c defines these types */
#define NUMBERS void
#define STEP void
#define GROUP void
#endif

/* Observations and parameters of the columns. */
typedef struct {
    int64_t n_states, n_single, n_features, n_rows, length, n_gaps;
    int64_t n_triples; /* number of blocks of three states, after n_single single states and pairs */
    int complete; /* whether all values are observed with weight one: sums over rows are then equal for all columns */
    const double *values, *weights;                                /* (T, D) */
    const double *offset, *reciprocal_noise, *log_norm, *loadings; /* (D,), (D,), (D,) and (K, D) */
    const double *scaled, *products; /* for each column: C' / r, and the lower triangle of C' C / r */
    double *collapsed;               /* see segments_work */
    const double *means;             /* (T, K) */
    double *terms;                   /* (T,) */
    const double *moments, *lag_one; /* results of `smooth`, not in full */
    const int32_t *next_gap;         /* index of the gap from each row to the next */
    const double *transition;        /* (U + 1, B, K): of A; entry b of row i of a block is in column (i + b) mod B */
} observations;

/* Arguments of the information filter and smoother over segments: see segments.c. */
typedef struct {
    int64_t n_states, n_single, n_rows, length, n_gaps;
    NUMBERS *collapsed; /* for each group and row: precision J (lower triangle) and information vector h */
    const int32_t *gap_index;
    /* A, A' Q^-1, A' Q^-1 A and Q^-1 over each gap (U + 1, 2, K): diagonals, and in rows of pairs the entries beside them;
     * and log|Q| (U + 1,). */
    const double *transition, *cross_precision, *previous_precision, *innovation_precision, *log_det;
    const STEP *steps; /* the same transitions, equal in all lanes; NULL if there are many gaps */
    GROUP *group;
    NUMBERS *rows; /* for each group length + 1 rows: filtered mean, and covariance given the next state */
    double *filtered_means, *terms;
    /* Smoothed moments. In full: means, covariances and lag-one covariances. Otherwise, for sums over rows: means, packed
     * covariances and products of means, and of lag-one covariances the diagonal, then the other entries inside blocks. */
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
    void (*add_up)(const observations *, int64_t first_row, int64_t end_row, double *observed_sums, double *residual_moments, double *residual_power, double *transitions, double *room);
} segments_kernels;

/* Arguments of the square-root filter and smoother: see recursions.c. */
typedef struct {
    int64_t n_states, n_features, n_rows, n_gaps;
    int bandwidth;                             /* of A: number of diagonals on each side of the main diagonal */
    const double *values, *weights;            /* (T, D) */
    const int32_t *gap_index;                  /* (T + 1,): gap before each row, and after the last row */
    const double *transition, *innovation;     /* (U + 1, K, K): A, and upper triangles N with Q = N' N */
    const double *loadings, *noise, *offset;   /* (D, K), (D,), (D,) */
    double *filtered_means, *terms;            /* (T, K); (T,): log|B| + |s|^2 of each row */
    double *filtered_covariances;              /* (T, K, K), or NULL if not requested */
    int32_t *slot;                             /* (T,): index of the gain and root of each row */
    double *gain, *root;                       /* (S, K, K): G' and N with Cov(z_t | z_t+1, rows up to t) = N' N */
    double *means, *covariances, *lag_one;     /* as above; covariances (T, K, K) and lag_one (T, K, K) in full */
} rows_work;

typedef struct {
    int64_t (*scratch)(int64_t n_states, int64_t n_features); /* size of scratch memory, in doubles */
    /* `mean` (K,) and `root` N (K, K), with covariance N' N, are those of the state before the rows, and on return those of
     * the last filtered state. Returns the number of slots. */
    int64_t (*filter)(const rows_work *, double *mean, double *root, double *scratch);
    /* `mean` and `covariance` are those of the smoothed state after the rows, and on return those of the first state. */
    void (*smooth)(const rows_work *, int64_t full, int64_t n_single, int64_t n_triples, double *mean, double *covariance, double *scratch);
    /* Computes draws (T, M, K) from standard normal variables (T, M, K). `after` (M, K) has draws of the state after the rows,
     * and on return those of the first state. */
    void (*draw)(const rows_work *, int64_t n_draws, const double *normals, double *after, double *draws, double *scratch);
    /* Scores e and precisions d (T, D): given all other values, a value x has the mean x - e / d and the variance 1 / d. */
    void (*leave_one_out)(const rows_work *, double *scores, double *precisions, double *states, double *scratch);
    /* Causal filter under Student-t noise with a weight for each value, or for each row if `by_row`. */
    void (*filter_student)(const rows_work *, double degrees, int64_t by_row, double *mean, double *root, double *scratch);
} rows_kernels;
