/* Interface of the kernels of the compiled engine: their arguments, and tables of their functions for the Python binding.
 *
 * Kernels are compiled once for each instruction set (-DLEVEL=avx2). The binding selects the best set of the processor.
 * Shapes: T rows, D columns, K states, L entries inside the diagonal blocks of a state matrix, U different gaps. Tables of
 * transitions have U + 1 entries; the last is the start of a sequence.
 */
#include <stddef.h>
#include <stdint.h>

#ifndef SIMD_VECTOR /* only segments.c defines these types */
#define SIMD_VECTOR void
#define TRANSITION void
#define SEGMENT_GROUP void
#endif

/* Observations and parameters of the columns. */
typedef struct {
    int64_t n_states, n_single, n_features, n_rows;
    int64_t length;    /* rows of a segment */
    int64_t n_gaps;
    int64_t n_triples; /* number of blocks of three states, which follow n_single single states and the pairs */
    int complete;      /* whether all values are observed with weight one: sums over rows are then equal for all columns */
    const double *values, *weights;                                /* (T, D) */
    const double *offset, *reciprocal_noise, *log_norm, *loadings; /* (D,), (D,), (D,) and (K, D) */
    const double *scaled_loadings;   /* (D, K): c / r of each column with loadings c */
    const double *products;          /* (D, K (K + 1) / 2): lower triangle of c c' / r */
    double *collapsed;               /* see segments_work */
    const double *means;             /* (T, K) */
    double *terms;                   /* (T,) */
    const double *moments, *lag_one; /* packed moments of `smooth`: see covariances and lag_one of segments_work */
    const int32_t *next_gap;         /* (T,): index of the gap from each row to the next */
    const double *transition;        /* A: cyclic diagonals, see `by_diagonals` of kernels.py */
} observations;

/* Arguments of the information filter and smoother over segments: see segments.c. */
typedef struct {
    int64_t n_states, n_single, n_rows, length, n_gaps;
    SIMD_VECTOR *collapsed; /* for each group and row: precision J (lower triangle) and information vector h */
    const int32_t *gap_index; /* (T,): index of the gap before each row */
    /* A, A' Q^-1, A' Q^-1 A and Q^-1 over each gap (U + 1, 2, K): the diagonal, and the off-diagonal entry in each row of a pair.
     * log|Q| (U + 1,). */
    const double *transition, *cross_precision, *previous_precision, *innovation_precision, *log_det;
    const TRANSITION *transitions; /* the same transitions, equal in all lanes; NULL if there are many gaps */
    SEGMENT_GROUP *group;
    SIMD_VECTOR *filtered_rows; /* for each group, length + 1 rows: filtered mean, and S (lower triangle) */
    double *filtered_means, *terms; /* (T, K) and (T,) */
    /* Smoothed means (T, K), covariances and lag-one covariances. In full: both (T, K, K). Packed, for sums over rows:
     *     covariances (T, K (K + 1))    lower triangle of the covariance, then that of the product m m' of the mean
     *     lag_one (T, L)                the diagonal, then the other entries inside the diagonal blocks */
    double *means, *covariances, *lag_one;
} segments_work;

typedef struct {
    int64_t max_states, size_of_group, size_of_transition, size_of_scratch;
    void (*tabulate)(const segments_work *);
    void (*eliminate)(const segments_work *, int64_t first_group, int64_t end_group, char *scratch);
    void (*join)(const segments_work *, int64_t n_groups, double *precision, double *information, char *scratch);
    void (*refilter)(const segments_work *, int64_t first_group, int64_t end_group, char *scratch);
    void (*join_back)(const segments_work *, int64_t n_groups, const double *mean, const double *covariance, char *scratch);
    void (*smooth)(const segments_work *, int64_t first_group, int64_t end_group, int64_t full, char *scratch);
    void (*link)(const segments_work *, int64_t n_groups, int64_t full, char *scratch);
    void (*collapse)(const observations *, int64_t first_group, int64_t end_group);
    void (*likelihoods)(const observations *, int64_t first_row, int64_t end_row);
    void (*add_up)(const observations *, int64_t first_row, int64_t end_row, double *observed_sums, double *residual_moments, double *residual_power, double *transition_sums, double *scratch);
} segments_kernels;

/* Arguments of the square-root filter and smoother: see recursions.c. */
typedef struct {
    int64_t n_states, n_features, n_rows, n_gaps;
    int bandwidth;                             /* of A: number of diagonals on each side of the main diagonal */
    const double *values, *weights;            /* (T, D) */
    const int32_t *gap_index;                  /* (T + 1,): gap before each row, and after the last row */
    const double *transition, *innovation;     /* (U + 1, K, K): A, and upper triangles E with Q = E' E */
    const double *loadings, *noise, *offset;   /* (D, K), (D,), (D,) */
    double *filtered_means, *terms;            /* (T, K); (T,): log|B' B| + |s|^2 of each row */
    double *filtered_covariances;              /* (T, K, K), or NULL if not requested */
    int32_t *slot;                             /* (T,): index of the gain and root of each row; rows in a steady state share one */
    double *gain, *root;                       /* (number of slots, K, K): G' and S with Cov(z_t | z_t+1, rows up to t) = S' S */
    double *means, *covariances, *lag_one;     /* smoothed moments as in segments_work */
} rows_work;

typedef struct {
    int64_t (*scratch)(int64_t n_states, int64_t n_features); /* size of scratch memory, in doubles */
    /* `mean` (K,) and `root` N (K, K), with covariance N' N, describe the state before the rows, and on return the filtered
     * last state. Returns the number of slots. */
    int64_t (*filter)(const rows_work *, double *mean, double *root, double *scratch);
    /* `mean` (K,) and `covariance` (K, K) describe the smoothed state after the rows, and on return the smoothed first state. */
    void (*smooth)(const rows_work *, int64_t full, int64_t n_single, int64_t n_triples, double *mean, double *covariance, double *scratch);
    /* Computes `draws` (T, M, K) from standard normal variables (T, M, K). `after` (M, K) contains draws of the state after the
     * rows, and on return those of the first state. */
    void (*draw)(const rows_work *, int64_t n_draws, const double *normals, double *after, double *draws, double *scratch);
    /* Computes `smoothing_errors` e and `precisions` d (T, D): given all other values, a value x has the mean x - e / d and
     * the variance 1 / d. `states` (T, K + K^2) is scratch memory. */
    void (*leave_one_out)(const rows_work *, double *smoothing_errors, double *precisions, double *states, double *scratch);
    /* Causal filter under Student-t noise with a weight for each value, or for each row if `by_row`. `mean` and `root` as in
     * `filter`. */
    void (*filter_student)(const rows_work *, double degrees, int64_t by_row, double *mean, double *root, double *scratch);
} rows_kernels;
