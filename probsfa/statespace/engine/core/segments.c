/* Kalman filter and smoother in information form over segments of rows. Four segments are processed in parallel, one in each
 * lane of SIMD vectors; these four are a group.
 *
 * A filtered state is represented by its precision F and its mean m. The update with a row adds the precision
 * J = C' R^-1 C and the information vector h = C' R^-1 (x - mu). The prediction of the next state, with transition matrix A
 * and innovation covariance Q, requires one inverse (Anderson & Moore 1979, section 6.3):
 *
 *     S = (F + A' Q^-1 A)^-1               Cov(z_t | z_t+1, rows up to t)
 *     Pi = Q^-1 - Q^-1 A S A' Q^-1         precision of the predicted next state
 *     F <- Pi + J,    m <- A m + F^-1 (h - J A m)
 *
 * In the backward pass, G = S A' Q^-1 is the smoother gain, and P_t = S + G P_t+1 G' the smoothed covariance.
 *
 * A segment depends on earlier segments only through the state s before its first row. The algorithm has six steps:
 *   1. collapse: compute J and h of each row.
 *   2. eliminate: integrate out the first states of each segment, one after the other, until later states do not depend on s,
 *      up to rounding. The last eliminated state z and s then have the joint density
 *      exp(z' (X s + f) - z' F z / 2 + v' s - s' V s / 2), up to a constant. The following rows are filtered without s.
 *   3. join: compute the distribution of each s given all earlier rows.
 *   4. refilter: filter the eliminated rows, starting from s.
 *   5. join_back and smooth: compute the smoothed last state of each segment, then smooth all rows of each segment.
 *   6. link: compute the lag-one covariances between adjacent segments.
 * After step 4, `likelihoods` completes the log densities of rows. After step 6, `add_up` computes sums over rows.
 *
 * Arguments and results are stored row by row, and symmetric matrices as lower triangles. Intermediate results are stored by
 * lanes. The rounding error of results grows with the square of the precision F: see recursions.c for very small noise.
 */
#include "matrices.h"

#define JOINED(k, level) segments_kernels_##k##_##level
#define NAMED(k, level) JOINED(k, level)
#ifdef STATES
#define MAX_STATES STATES
#define COUNT(w) ((void)(w), STATES)
#else
#define MAX_STATES UP_TO
#define COUNT(w) ((w)->n_states)
#endif
#define NAMED_BY_LEVEL NAMED(MAX_STATES, LEVEL)
#define AT(i, j) ((i) * ((i) + 1) / 2 + (j)) /* position of entry (i, j), j <= i, in a packed lower triangle */

/* States are eliminated until the largest entry of X is at most this number, which is tested once in a few rows. */
static const double MAX_NEGLIGIBLE_CROSS = 1e-15;
enum { ROWS_BETWEEN_TESTS = 4 };

/* A block-diagonal matrix with blocks of one and two states (see dynamics.py): its diagonal, and the off-diagonal entry in each
 * row of a block of two. The first `n_single` states are single, the others are pairs. */
typedef struct {
    vector diagonal, off_diagonal;
} blocks;

/* Transitions to one row of each segment: A, A' Q^-1, A' Q^-1 A and Q^-1; and log|Q|. */
typedef struct {
    blocks transition_matrix, cross_precision, previous_precision, innovation_precision;
    lanes log_det;
} transition;

/* Results for a group of segments. */
typedef struct {
    /* Of `eliminate`: F of the last state, X transposed, and V of the state s before the segment; f and v. */
    matrix precision, cross, before_precision;
    vector information, before_information;
    /* Of `join`: precision and information vector of s given earlier rows. Given the last state z of the segment and all rows up
     * to it, s has the mean `constant` + gain z and a conditional covariance; the gain is stored transposed. */
    matrix start_precision, conditional_covariance, gain;
    vector start_information, constant;
    /* Of `join_back`: smoothed mean and covariance of the last state. Of `smooth`: smoothed covariance of the first state. */
    matrix end_covariance, first_covariance;
    vector end_mean;
    int64_t n_eliminated; /* number of eliminated rows */
} segments;

#define SIMD_VECTOR lanes
#define TRANSITION transition
#define SEGMENT_GROUP segments
#include "kernels.h"
typedef segments_work work;

/* out = B x. */
ALWAYS_INLINE void blocks_times(int n, int n_single, const blocks *b, const lanes *x, lanes *out) {
    for (int k = 0; k < n; k++) out[k] = b->diagonal[k] * x[k];
    for (int k = n_single; k < n; k += 2) {
        out[k] += b->off_diagonal[k] * x[k + 1];
        out[k + 1] += b->off_diagonal[k + 1] * x[k];
    }
}

/* out = B' x; or x' B, if x is a row of a matrix. */
ALWAYS_INLINE void blocks_transposed_times(int n, int n_single, const blocks *b, const lanes *x, lanes *out) {
    for (int k = 0; k < n; k++) out[k] = b->diagonal[k] * x[k];
    for (int k = n_single; k < n; k += 2) {
        out[k] += b->off_diagonal[k + 1] * x[k + 1];
        out[k + 1] += b->off_diagonal[k] * x[k];
    }
}

/* Adds a symmetric block-diagonal matrix to a lower triangle. */
ALWAYS_INLINE void add_blocks(int n, int n_single, const blocks *b, matrix m) {
    for (int k = 0; k < n; k++) m[k][k] += b->diagonal[k];
    for (int k = n_single; k < n; k += 2) m[k + 1][k] += b->off_diagonal[k + 1];
}

static inline int64_t row_of(const work *w, int64_t g, int lane, int64_t t) { return (g * LANES + lane) * w->length + t; }

static inline void set_blocks_lane(int n, int n_single, const double *from, int lane, blocks *to) {
    for (int k = 0; k < n; k++) to->diagonal[k][lane] = from[k];
    for (int k = n_single; k < n; k++) to->off_diagonal[k][lane] = from[n + k];
}

static inline void broadcast_blocks(int n, const double *from, blocks *to) {
    for (int k = 0; k < n; k++) {
        to->diagonal[k] = broadcast(from[k]);
        to->off_diagonal[k] = broadcast(from[n + k]);
    }
}

/* Returns the transitions to row t of the segments of a group: from the table of transitions if they are equal, otherwise
 * computed in `local`. */
static inline const transition *transition_to(const work *w, int n, int64_t g, int64_t t, transition *local) {
    int64_t gap[LANES];
    for (int l = 0; l < LANES; l++) {
        int64_t r = row_of(w, g, l, t);
        gap[l] = r < w->n_rows ? w->gap_index[r] : w->n_gaps;
    }
    if (w->transitions && gap[0] == gap[1] && gap[0] == gap[2] && gap[0] == gap[3]) return w->transitions + gap[0];
    for (int l = 0; l < LANES; l++) {
        const int64_t i = gap[l];
        set_blocks_lane(n, w->n_single, w->transition + 2 * i * n, l, &local->transition_matrix);
        set_blocks_lane(n, w->n_single, w->cross_precision + 2 * i * n, l, &local->cross_precision);
        set_blocks_lane(n, w->n_single, w->previous_precision + 2 * i * n, l, &local->previous_precision);
        set_blocks_lane(n, w->n_single, w->innovation_precision + 2 * i * n, l, &local->innovation_precision);
        local->log_det[l] = w->log_det[i];
    }
    return local;
}

/* Fills the table of transitions: for each gap, the same transition in all lanes. */
static void tabulate(const work *w) {
    const int n = COUNT(w);
    for (int64_t i = 0; i <= w->n_gaps; i++) {
        transition *to = (transition *)w->transitions + i;
        broadcast_blocks(n, w->transition + 2 * i * n, &to->transition_matrix);
        broadcast_blocks(n, w->cross_precision + 2 * i * n, &to->cross_precision);
        broadcast_blocks(n, w->previous_precision + 2 * i * n, &to->previous_precision);
        broadcast_blocks(n, w->innovation_precision + 2 * i * n, &to->innovation_precision);
        to->log_det = broadcast(w->log_det[i]);
    }
}

/* Reads the precision J (lower triangle) and information vector h of row t of each segment. */
static inline void load_collapsed(const work *w, int n, int64_t g, int64_t t, matrix precision, vector information) {
    const lanes *from = w->collapsed + (g * w->length + t) * (n + n * (n + 1) / 2);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) precision[i][j] = *from++;
    for (int i = 0; i < n; i++) information[i] = *from++;
}

/* S = (F + A' Q^-1 A)^-1; returns log|S^-1|. */
static inline lanes condition(int n, int n_single, const matrix precision, const transition *step, matrix conditional_covariance, arena space) {
    (void)space;
    LOCAL_MATRIX(sum);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) sum[i][j] = precision[i][j];
    add_blocks(n, n_single, &step->previous_precision, sum);
    return invert(n, sum, conditional_covariance);
}

/* Pi = Q^-1 - Q^-1 A S A' Q^-1, lower triangle. */
static inline void predict(int n, int n_single, const matrix conditional_covariance, const transition *step, matrix predicted_precision) {
    const lanes *const diagonal = step->cross_precision.diagonal, *const off_diagonal = step->cross_precision.off_diagonal;
    for (int i = 0; i < n_single; i++)
        for (int j = 0; j <= i; j++) predicted_precision[i][j] = -(diagonal[i] * conditional_covariance[i][j]) * diagonal[j];
    for (int i = n_single; i < n; i += 2) {
        vector first, second;
        for (int j = 0; j < i + 2; j++) {
            first[j] = -(diagonal[i] * conditional_covariance[i][j] + off_diagonal[i + 1] * conditional_covariance[i + 1][j]);
            second[j] = -(off_diagonal[i] * conditional_covariance[i][j] + diagonal[i + 1] * conditional_covariance[i + 1][j]);
        }
        blocks_transposed_times(i + 2, n_single, &step->cross_precision, first, predicted_precision[i]);
        blocks_transposed_times(i + 2, n_single, &step->cross_precision, second, predicted_precision[i + 1]);
    }
    add_blocks(n, n_single, &step->innovation_precision, predicted_precision);
}

/* State of the filter at a row, before the update of the mean. */
typedef struct {
    matrix precision, predicted_precision; /* F and Pi */
    vector predicted_mean;                 /* A m */
    vector innovation;                     /* in information form: h - J A m; or the information vector, if A m is zero */
    lanes predicted_log_det;               /* log|Pi| */
} filter_state;

/* Filters rows first..last of a group, starting with `state` at row `first`. Row -1 is the state before the segment. If
 * `information_of_last` is not NULL, it receives the information vector of the last row of the segment. */
static void filter(const work *w, int64_t g, int64_t first, int64_t last, filter_state *state, lanes *information_of_last, arena space) {
    const int n = COUNT(w), n_single = (int)w->n_single, packed = n * (n + 1) / 2;
    lanes *out = w->filtered_rows + (g * (w->length + 1) + first + 1) * (n + packed);
    LOCAL_MATRIX(precision);
    LOCAL_MATRIX(conditional_covariance);
    for (int64_t t = first; t <= last; t++, out += n + packed) {
        vector correction, product;
        lanes log_det = solve(n, state->precision, state->innovation, correction, space), distance = broadcast(0.0);
        for (int i = 0; i < n; i++) out[i] = state->predicted_mean[i] + correction[i];
        mirror(n, state->predicted_precision);
        times(n, state->predicted_precision, correction, product);
        for (int i = 0; i < n; i++) distance += correction[i] * product[i];
        lanes term = log_det - state->predicted_log_det + distance;
        if (t >= 0)
            for (int l = 0; l < LANES; l++) {
                int64_t r = row_of(w, g, l, t);
                if (r >= w->n_rows) continue;
                w->terms[r] = term[l];
                for (int i = 0; i < n; i++) w->filtered_means[r * n + i] = out[i][l];
            }
        if (t == w->length - 1) {
            if (information_of_last) {
                mirror(n, state->precision);
                times(n, state->precision, state->predicted_mean, product);
                for (int i = 0; i < n; i++) information_of_last[i] = product[i] + state->innovation[i];
            }
            break;
        }
        transition local;
        const transition *step = transition_to(w, n, g, t + 1, &local);
        load_collapsed(w, n, g, t + 1, precision, state->innovation);
        mirror(n, precision);
        lanes conditional_log_det = condition(n, n_single, state->precision, step, conditional_covariance, space);
        lanes *to = out + n;
        for (int i = 0; i < n; i++)
            for (int j = 0; j <= i; j++) *to++ = conditional_covariance[i][j];
        predict(n, n_single, conditional_covariance, step, state->predicted_precision);
        blocks_times(n, n_single, &step->transition_matrix, out, state->predicted_mean);
        times(n, precision, state->predicted_mean, product);
        for (int i = 0; i < n; i++) {
            state->innovation[i] -= product[i];
            for (int j = 0; j <= i; j++) state->precision[i][j] = state->predicted_precision[i][j] + precision[i][j];
        }
        /* |Pi| = |F| / (|S^-1| |Q|). */
        state->predicted_log_det = log_det - conditional_log_det - step->log_det;
    }
}

static inline double largest(int n, const matrix m) {
    double maximum = 0.0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int l = 0; l < LANES; l++) maximum = fmax(maximum, fabs(m[i][j][l]));
    return maximum;
}

/* Eliminates the first states of each segment of some groups until later states do not depend on the state before the
 * segment, and filters the following rows. During elimination, state->innovation is f. */
static void eliminate(const work *w, int64_t first_group, int64_t end_group, char *scratch) {
    const int n = COUNT(w), n_single = (int)w->n_single;
    arena space = {scratch};
    (void)space;
    LOCAL(filter_state, state);
    LOCAL_MATRIX(precision);
    LOCAL_MATRIX(conditional_covariance);
    LOCAL_MATRIX(solved);
    LOCAL_MATRIX(products);
    for (int64_t g = first_group; g < end_group; g++) {
        segments *s = w->group + g;
        transition local;
        memset(state, 0, sizeof *state);
        const transition *step = transition_to(w, n, g, 0, &local);
        load_collapsed(w, n, g, 0, state->precision, state->innovation);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) s->cross[i][j] = s->before_precision[i][j] = broadcast(0.0);
            s->before_information[i] = broadcast(0.0);
            s->cross[i][i] = step->cross_precision.diagonal[i];
        }
        for (int i = n_single; i < n; i += 2) {
            s->cross[i][i + 1] = step->cross_precision.off_diagonal[i];
            s->cross[i + 1][i] = step->cross_precision.off_diagonal[i + 1];
        }
        add_blocks(n, n_single, &step->innovation_precision, state->precision);
        add_blocks(n, n_single, &step->previous_precision, s->before_precision);
        int64_t t = 1;
        for (; t < w->length; t++) {
            if (t % ROWS_BETWEEN_TESTS == 0 && largest(n, s->cross) <= MAX_NEGLIGIBLE_CROSS) break;
            vector information, conditional_mean, propagated;
            step = transition_to(w, n, g, t, &local);
            load_collapsed(w, n, g, t, precision, information);
            condition(n, n_single, state->precision, step, conditional_covariance, space);
            times_transposed(n, s->cross, conditional_covariance, 0, solved);
            times(n, conditional_covariance, state->innovation, conditional_mean);
            times_transposed(n, solved, s->cross, 1, products);
            for (int i = 0; i < n; i++) {
                s->before_information[i] += dot(conditional_mean, s->cross[i], 0, n);
                for (int j = 0; j <= i; j++) s->before_precision[i][j] -= products[i][j];
            }
            predict(n, n_single, conditional_covariance, step, state->precision);
            blocks_transposed_times(n, n_single, &step->cross_precision, conditional_mean, propagated);
            for (int i = 0; i < n; i++) {
                for (int j = 0; j <= i; j++) state->precision[i][j] += precision[i][j];
                blocks_transposed_times(n, n_single, &step->cross_precision, solved[i], s->cross[i]);
                state->innovation[i] = information[i] + propagated[i];
            }
        }
        s->n_eliminated = t;
        /* The mean and terms of row t - 1 depend on s; `refilter` overwrites them. */
        filter(w, g, t - 1, w->length - 1, state, s->information, space);
        memcpy(s->precision, state->precision, sizeof state->precision);
    }
}

static inline void broadcast_matrix_lane(int n, const matrix from, int lane, matrix to) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) to[i][j] = broadcast(from[i][j][lane]);
}

static inline void broadcast_vector_lane(int n, const vector from, int lane, vector to) {
    for (int i = 0; i < n; i++) to[i] = broadcast(from[i][lane]);
}

static inline void set_matrix_lane(int n, const matrix from, int lane, matrix to) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) to[i][j][lane] = from[i][j][0];
}

static inline void set_vector_lane(int n, const vector from, int lane, vector to) {
    for (int i = 0; i < n; i++) to[i][lane] = from[i][0];
}

/* Computes the distributions of the states before the segments, one after the other. `precision_of_last` (K, K) and
 * `information_of_last` (K,) are those of the state before all rows, and on return those of the filtered last state. */
static void join(const work *w, int64_t n_groups, double *precision_of_last, double *information_of_last, char *scratch) {
    const int n = COUNT(w);
    arena space = {scratch};
    (void)space;
    LOCAL_MATRIX(precision);
    LOCAL_MATRIX(combined_precision);
    LOCAL_MATRIX(cross);
    LOCAL_MATRIX(conditional_covariance);
    LOCAL_MATRIX(transposed_gain);
    LOCAL_MATRIX(precision_change);
    vector information;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) precision[i][j] = broadcast(precision_of_last[i * n + j]);
        information[i] = broadcast(information_of_last[i]);
    }
    for (int64_t i_segment = 0; i_segment < n_groups * LANES; i_segment++) {
        segments *s = w->group + i_segment / LANES;
        const int l = i_segment % LANES;
        vector combined_information, constant;
        set_matrix_lane(n, precision, l, s->start_precision);
        set_vector_lane(n, information, l, s->start_information);
        broadcast_matrix_lane(n, s->before_precision, l, combined_precision);
        broadcast_vector_lane(n, s->before_information, l, combined_information);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j <= i; j++) combined_precision[i][j] += precision[i][j];
            combined_information[i] += information[i];
            for (int j = 0; j < n; j++) cross[i][j] = broadcast(s->cross[j][i][l]); /* X */
        }
        invert(n, combined_precision, conditional_covariance);
        times(n, conditional_covariance, combined_information, constant);
        times_transposed(n, cross, conditional_covariance, 0, transposed_gain); /* the gain, transposed */
        times_transposed(n, transposed_gain, cross, 0, precision_change);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) precision[i][j] = broadcast(s->precision[i > j ? i : j][i > j ? j : i][l]) - precision_change[i][j];
            information[i] = broadcast(s->information[i][l]) + dot(cross[i], constant, 0, n);
        }
        set_matrix_lane(n, conditional_covariance, l, s->conditional_covariance);
        set_matrix_lane(n, transposed_gain, l, s->gain);
        set_vector_lane(n, constant, l, s->constant);
    }
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) precision_of_last[i * n + j] = precision[i][j][0];
        information_of_last[i] = information[i][0];
    }
}

/* Filters the rows of eliminated states, from the states before the segments. */
static void refilter(const work *w, int64_t first_group, int64_t end_group, char *scratch) {
    arena space = {scratch};
    (void)space;
    LOCAL(filter_state, state);
    for (int64_t g = first_group; g < end_group; g++) {
        const segments *s = w->group + g;
        memset(state, 0, sizeof *state);
        memcpy(state->precision, s->start_precision, sizeof state->precision);
        memcpy(state->innovation, s->start_information, sizeof state->innovation);
        filter(w, g, -1, s->n_eliminated - 1, state, 0, space);
    }
}

/* Computes the smoothed last states of all segments, from the smoothed mean (K,) and covariance (K, K) of the last row. */
static void join_back(const work *w, int64_t n_groups, const double *mean_of_last, const double *covariance_of_last, char *scratch) {
    const int n = COUNT(w);
    arena space = {scratch};
    (void)space;
    vector mean;
    LOCAL_MATRIX(covariance);
    LOCAL_MATRIX(gain);
    LOCAL_MATRIX(gain_times_covariance);
    LOCAL_MATRIX(propagated_covariance);
    for (int i = 0; i < n; i++) {
        mean[i] = broadcast(mean_of_last[i]);
        for (int j = 0; j < n; j++) covariance[i][j] = broadcast(covariance_of_last[i * n + j]);
    }
    for (int64_t i_segment = n_groups * LANES - 1; i_segment >= 0; i_segment--) {
        segments *s = w->group + i_segment / LANES;
        const int l = i_segment % LANES;
        vector propagated_mean;
        set_vector_lane(n, mean, l, s->end_mean);
        set_matrix_lane(n, covariance, l, s->end_covariance);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) gain[i][j] = broadcast(s->gain[j][i][l]);
        times_transposed(n, gain, covariance, 0, gain_times_covariance);
        times_transposed(n, gain_times_covariance, gain, 0, propagated_covariance);
        times(n, gain, mean, propagated_mean);
        for (int i = 0; i < n; i++) {
            mean[i] = broadcast(s->constant[i][l]) + propagated_mean[i];
            for (int j = 0; j < n; j++) covariance[i][j] = broadcast(s->conditional_covariance[i][j][l]) + propagated_covariance[i][j];
        }
    }
}

/* Computes the addresses `to` of the results of row t of each segment, in an array `base` with `size` numbers for each row. If a
 * segment does not have this row, its address is `unused`. */
static inline void row_addresses(const work *w, int64_t g, int64_t t, double *base, int64_t size, double *unused, double *to[LANES]) {
    for (int l = 0; l < LANES; l++) {
        const int64_t r = row_of(w, g, l, t);
        to[l] = r >= 0 && r < w->n_rows ? base + r * size : unused;
    }
}

typedef double unused_row[2 * STRIDE * STRIDE];

/* Writes the smoothed mean and covariance of row t of each segment, in full or packed (see kernels.h). */
static inline void store_moments(const work *w, int n, int64_t g, int64_t t, const vector mean, const matrix covariance, int full, arena space) {
    (void)space;
    const int packed = n * (n + 1) / 2;
    double *to[LANES];
    LOCAL(unused_row, unused);
    row_addresses(w, g, t, w->means, n, *unused, to);
    scatter(n, mean, to, 0);
    row_addresses(w, g, t, w->covariances, full ? n * n : 2 * packed, *unused, to);
    for (int i = 0; i < n; i++) {
        if (full) {
            scatter(n, covariance[i], to, i * n);
            continue;
        }
        vector products;
        for (int j = 0; j <= i; j++) products[j] = mean[i] * mean[j];
        scatter(i + 1, covariance[i], to, AT(i, 0));
        scatter(i + 1, products, to, packed + AT(i, 0));
    }
}

/* Writes the lag-one covariance of row t of each segment, in full or packed. `lag_one_transposed` is the covariance of state t
 * (rows) with state t + 1 (columns). */
static inline void store_lag_one(const work *w, int n, int64_t g, int64_t t, const matrix lag_one_transposed, int full, arena space) {
    (void)space;
    double *to[LANES];
    LOCAL(unused_row, unused);
    vector row;
    const int n_single = (int)w->n_single;
    row_addresses(w, g, t, w->lag_one, full ? n * n : 2 * n - n_single, *unused, to);
    for (int j = 0; full && j < n; j++) {
        for (int i = 0; i < n; i++) row[i] = lag_one_transposed[i][j];
        scatter(n, row, to, j * n);
    }
    if (full) return;
    for (int i = 0; i < n; i++) row[i] = lag_one_transposed[i][i];
    scatter(n, row, to, 0);
    for (int i = n_single; i < n; i += 2) {
        row[i - n_single] = lag_one_transposed[i + 1][i];
        row[i - n_single + 1] = lag_one_transposed[i][i + 1];
    }
    scatter(n - n_single, row, to, n);
}

/* Unpacks S, and computes the smoother gain G = S A' Q^-1. */
static inline void unpack_gain(int n, int n_single, const lanes *packed, const blocks *cross_precision, matrix conditional_covariance, matrix gain) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) conditional_covariance[i][j] = conditional_covariance[j][i] = *packed++;
    for (int i = 0; i < n; i++) blocks_transposed_times(n, n_single, cross_precision, conditional_covariance[i], gain[i]);
}

/* Smooths some groups of segments from their last states. */
static void smooth(const work *w, int64_t first_group, int64_t end_group, int64_t full, char *scratch) {
    const int n = COUNT(w), n_single = (int)w->n_single, stride = n + n * (n + 1) / 2;
    arena space = {scratch};
    (void)space;
    LOCAL_MATRIX(covariance);
    LOCAL_MATRIX(conditional_covariance);
    LOCAL_MATRIX(gain);
    LOCAL_MATRIX(lag_one_transposed);
    for (int64_t g = first_group; g < end_group; g++) {
        segments *s = w->group + g;
        vector mean;
        memcpy(mean, s->end_mean, sizeof mean);
        memcpy(covariance, s->end_covariance, sizeof(matrix));
        store_moments(w, n, g, w->length - 1, mean, covariance, full, space);
        const lanes *row = w->filtered_rows + (g * (w->length + 1) + w->length - 1) * stride;
        for (int64_t t = w->length - 2; t >= 0; t--, row -= stride) {
            transition local;
            vector prediction_error, correction;
            const transition *step = transition_to(w, n, g, t + 1, &local);
            unpack_gain(n, n_single, row + n, &step->cross_precision, conditional_covariance, gain);
            times_transposed(n, gain, covariance, 0, lag_one_transposed);
            blocks_times(n, n_single, &step->transition_matrix, row, prediction_error);
            for (int i = 0; i < n; i++) prediction_error[i] = mean[i] - prediction_error[i];
            times(n, gain, prediction_error, correction);
            times_transposed(n, lag_one_transposed, gain, 1, covariance);
            for (int i = 0; i < n; i++) {
                mean[i] = row[i] + correction[i];
                for (int j = 0; j <= i; j++) covariance[j][i] = covariance[i][j] += conditional_covariance[i][j];
            }
            store_moments(w, n, g, t, mean, covariance, full, space);
            store_lag_one(w, n, g, t, lag_one_transposed, full, space);
        }
        memcpy(s->first_covariance, covariance, sizeof(matrix));
    }
}

/* Computes the lag-one covariances of the first state of each segment with the last state of the previous segment. */
static void link_segments(const work *w, int64_t n_groups, int64_t full, char *scratch) {
    const int n = COUNT(w), n_single = (int)w->n_single, stride = n + n * (n + 1) / 2;
    arena space = {scratch};
    (void)space;
    LOCAL_MATRIX(conditional_covariance);
    LOCAL_MATRIX(gain);
    LOCAL_MATRIX(lag_one_transposed);
    for (int64_t g = 0; g < n_groups; g++) {
        transition local;
        const transition *step = transition_to(w, n, g, 0, &local);
        unpack_gain(n, n_single, w->filtered_rows + g * (w->length + 1) * stride + n, &step->cross_precision, conditional_covariance, gain);
        times_transposed(n, gain, w->group[g].first_covariance, 0, lag_one_transposed);
        store_lag_one(w, n, g, -1, lag_one_transposed, full, space);
    }
}

#define VECTORS(count) (((count) + LANES - 1) / LANES)

enum { COLUMNS_TOGETHER = 32 };

/* out[p] += sum over columns d of weights[d] table[d][p], for p < count; or = if `overwrite`. The table has `width` numbers for
 * each column. */
ALWAYS_INLINE void add_columns(const int count, int n_columns, const lanes *weights, const double *table, int64_t width, int overwrite, lanes *out) {
    lanes sums[8];
    UNROLL8 for (int p = 0; p < count; p++) sums[p] = overwrite ? broadcast(0.0) : out[p];
    for (int d = 0; d < n_columns; d++, table += width)
        UNROLL8 for (int p = 0; p < count; p++) sums[p] += weights[d] * table[p];
    UNROLL8 for (int p = 0; p < count; p++) out[p] = sums[p];
}

/* The same for any count. */
static inline void collapse_onto(int count, int n_columns, const lanes *weights, const double *table, int overwrite, lanes *out) {
    int p = 0;
    for (; p + 7 < count; p += 8) add_columns(8, n_columns, weights, table + p, count, overwrite, out + p);
    table += p;
    out += p;
    switch (count - p) {
    case 7: add_columns(7, n_columns, weights, table, count, overwrite, out); break;
    case 6: add_columns(6, n_columns, weights, table, count, overwrite, out); break;
    case 5: add_columns(5, n_columns, weights, table, count, overwrite, out); break;
    case 4: add_columns(4, n_columns, weights, table, count, overwrite, out); break;
    case 3: add_columns(3, n_columns, weights, table, count, overwrite, out); break;
    case 2: add_columns(2, n_columns, weights, table, count, overwrite, out); break;
    case 1: add_columns(1, n_columns, weights, table, count, overwrite, out);
    }
}

/* Computes the precisions J and information vectors h of all rows of some groups. If the weights of a row are those of the
 * previous row, its precision is copied. */
static void collapse(const observations *x, int64_t first_group, int64_t end_group) {
    const int n = COUNT(x), packed = n * (n + 1) / 2;
    const int64_t n_features = x->n_features;
    for (int64_t g = first_group; g < end_group; g++) {
        lanes *to = (lanes *)x->collapsed + g * x->length * (packed + n);
        for (int64_t t = 0; t < x->length; t++, to += packed + n) {
            const double *value[LANES], *weight[LANES];
            int same_weights = t > 0;
            for (int l = 0; l < LANES; l++) {
                const int64_t r = (g * LANES + l) * x->length + t;
                const int exists = r < x->n_rows;
                value[l] = exists ? x->values + r * n_features : 0;
                weight[l] = exists ? x->weights + r * n_features : 0;
                same_weights = same_weights && exists && !memcmp(weight[l], weight[l] - n_features, n_features * sizeof(double));
            }
            if (same_weights) memcpy(to, to - packed - n, packed * sizeof(lanes));
            for (int64_t d = 0; d < n_features || d == 0; d += COLUMNS_TOGETHER) {
                const int count = n_features - d < COLUMNS_TOGETHER ? (int)(n_features - d) : COLUMNS_TOGETHER;
                lanes weights[COLUMNS_TOGETHER], centred[COLUMNS_TOGETHER];
                gather(count, weight, d, weights);
                gather(count, value, d, centred);
                for (int c = 0; c < count; c++) centred[c] = weights[c] * (centred[c] - x->offset[d + c]);
                if (!same_weights) collapse_onto(packed, count, weights, x->products + d * packed, d == 0, to);
                collapse_onto(n, count, centred, x->scaled_loadings + d * n, d == 0, to + packed);
            }
        }
    }
}

/* Computes the residuals x - mu - C m of `count` columns of a row, starting at column d. `value` and `means` are those of the
 * row. */
static inline void residuals(const observations *x, int n, const double *means, const double *value, int64_t d, int count, double *out) {
    for (int b = 0; b < count; b++) out[b] = value[d + b] - x->offset[d + b];
    for (int k = 0; k < n; k++) {
        const double *loading = x->loadings + k * x->n_features + d, mean = means[k];
        for (int b = 0; b < count; b++) out[b] -= mean * loading[b];
    }
}

/* Completes the log densities of rows. On entry, x->terms contains the terms of the states. The squared residuals at the filtered
 * means, in units of the noise variances, and the normalising constants of the noise are added, and the sum is multiplied by
 * -1/2. */
static void likelihoods(const observations *x, int64_t first, int64_t end) {
    const int n = COUNT(x);
    const int64_t n_features = x->n_features;
    for (int64_t r = first; r < end; r++) {
        const double *value = x->values + r * n_features, *weight = x->weights + r * n_features;
        lanes sums = broadcast(0.0);
        int any_observed = 0;
        for (int64_t d = 0; d < n_features; d += COLUMNS_TOGETHER) {
            const int count = n_features - d < COLUMNS_TOGETHER ? (int)(n_features - d) : COLUMNS_TOGETHER;
            double residual[COLUMNS_TOGETHER];
            residuals(x, n, x->means + r * n, value, d, count, residual);
            for (int b = 0; b < count; b++) {
                residual[b] = weight[d + b] * (residual[b] * residual[b] * x->reciprocal_noise[d + b] + x->log_norm[d + b]);
                any_observed |= weight[d + b] > 0.0;
            }
            for (int b = count; b % LANES; b++) residual[b] = 0.0;
            for (int b = 0; b < count; b += LANES) sums += *(const lanes *)(residual + b);
        }
        const double sum = x->terms[r] + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
        x->terms[r] = any_observed ? -0.5 * sum : 0.0; /* exactly zero for a row without observed values */
    }
}

enum { ROWS_TOGETHER = 16 };

/* out[i][d] += sum over rows r of factors[r][i] weights[r][d], for i < height and SIMD vectors d < n_vectors. `factors` has `size`
 * numbers for each row; `weights` and `out` have `width` vectors for each row. */
ALWAYS_INLINE void add_tile(const int height, const int n_vectors, int n_rows, const double *factors, int64_t size, const lanes *weights, int64_t width, lanes *out) {
    lanes sums[4][3];
    UNROLL for (int i = 0; i < height; i++)
        UNROLL for (int d = 0; d < n_vectors; d++) sums[i][d] = out[i * width + d];
    for (int r = 0; r < n_rows; r++, factors += size, weights += width) {
        lanes w[3];
        UNROLL for (int d = 0; d < n_vectors; d++) w[d] = weights[d];
        UNROLL for (int i = 0; i < height; i++) {
            const lanes factor = broadcast(factors[i]);
            UNROLL for (int d = 0; d < n_vectors; d++) sums[i][d] += factor * w[d];
        }
    }
    UNROLL for (int i = 0; i < height; i++)
        UNROLL for (int d = 0; d < n_vectors; d++) out[i * width + d] = sums[i][d];
}

/* The same for all `width` vectors. */
ALWAYS_INLINE void add_strip(const int height, int n_rows, const double *factors, int64_t size, const lanes *weights, int64_t width, lanes *out) {
    int64_t d = 0;
    for (; d + 2 < width; d += 3) add_tile(height, 3, n_rows, factors, size, weights + d, width, out + d);
    switch (width - d) {
    case 2: add_tile(height, 2, n_rows, factors, size, weights + d, width, out + d); break;
    case 1: add_tile(height, 1, n_rows, factors, size, weights + d, width, out + d);
    }
}

/* The same for any height. */
static inline void add_products(int n_rows, int height, const double *factors, int64_t size, const lanes *weights, int64_t width, lanes *out) {
    int i = 0;
    for (; i + 3 < height; i += 4) add_strip(4, n_rows, factors + i, size, weights, width, out + i * width);
    for (; i < height; i++) add_strip(1, n_rows, factors + i, size, weights, width, out + i * width);
}

/* Adds the expected moments of the transition of a block of states from z to z_next: E[e e'], E[e z'] and E[z z'] with
 * e = z_next - A z, to to[0], to[n_terms] and to[2 n_terms]. They are computed from means, packed covariances, and the lag-one
 * covariance of the block: its diagonal in `lag_diagonal`, its other entries in `lag_off_diagonal`. */
ALWAYS_INLINE void add_block(const int size, int first, int n, const double *diagonals, const double *mean, const double *next_mean, const double *covariances, const double *next_covariances, const double *lag_diagonal, const double *lag_off_diagonal, int n_terms, double *to) {
    double a[3][3], covariance[3][3], next_covariance[3][3], lag[3][3], innovation[3], cross[3][3]; /* cross: Cov(e, z) */
    for (int i = 0; i < size; i++) {
        a[i][i] = diagonals[first + i];
        lag[i][i] = lag_diagonal[first + i];
        for (int b = 1; b < size; b++) a[i][(i + b) % size] = diagonals[b * n + first + i];
        for (int j = 0; j < size; j++)
            if (j != i) lag[i][j] = *lag_off_diagonal++;
        for (int j = 0; j <= i; j++) {
            covariance[i][j] = covariance[j][i] = covariances[AT(first + i, first + j)];
            next_covariance[i][j] = next_covariance[j][i] = next_covariances[AT(first + i, first + j)];
        }
    }
    for (int i = 0; i < size; i++) {
        innovation[i] = next_mean[first + i];
        for (int l = 0; l < size; l++) innovation[i] -= a[i][l] * mean[first + l];
        for (int j = 0; j < size; j++) {
            cross[i][j] = lag[i][j];
            for (int l = 0; l < size; l++) cross[i][j] -= a[i][l] * covariance[l][j];
        }
    }
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++, to++) {
            double innovation_covariance = next_covariance[i][j];
            for (int l = 0; l < size; l++) innovation_covariance -= a[i][l] * lag[j][l];
            for (int l = 0; l < size; l++) innovation_covariance -= cross[i][l] * a[j][l];
            to[0] += innovation[i] * innovation[j] + innovation_covariance;
            to[n_terms] += innovation[i] * mean[first + j] + cross[i][j];
            to[2 * n_terms] += mean[first + i] * mean[first + j] + covariance[i][j];
        }
}

/* Adds sums over rows first..end-1 for the expected statistics, with P = K (K + 1) / 2, L entries inside the diagonal blocks, and
 * W = D + 1 rounded up to whole SIMD vectors:
 *   observed_sums (2 P + K + 1, W): sums of the packed covariances, of the packed products of means, of the means and of one.
 *       Column d < D is over the rows in which column d is observed, column D over the rows in which any column is observed. If
 *       all rows are complete, all columns are equal and only the first vector is used.
 *   residual_moments (K + 1, W): sums of means and of one, times the residuals of each column.
 *   residual_power (D,): sums of squared residuals.
 *   transition_sums (U + 1, 3 L + 1): for each gap, the sums of `add_block` for all blocks, and the number of transitions.
 * `scratch` has space for ROWS_TOGETHER rows of 2 W + K + 1 numbers. */
static void add_up(const observations *x, int64_t first, int64_t end, double *observed_sums, double *residual_moments, double *residual_power, double *transition_sums, double *scratch) {
    const int n = COUNT(x), n_single = (int)x->n_single, packed = n * (n + 1) / 2;
    const int first_triple = n - 3 * (int)x->n_triples, n_terms = 2 * n - n_single + 3 * (int)x->n_triples, stride = n * (x->n_triples ? 3 : 2);
    const int64_t n_features = x->n_features, vectors = VECTORS(n_features + 1), width = vectors * LANES;
    const int64_t n_mask_vectors = x->complete ? 1 : vectors;
    double *const masks = scratch, *const residual = masks + ROWS_TOGETHER * width, *const extended = residual + ROWS_TOGETHER * width;
    memset(scratch, 0, ROWS_TOGETHER * (2 * width + n + 1) * sizeof(double));
    for (int64_t start = first; start < end; start += ROWS_TOGETHER) {
        const int count = end - start < ROWS_TOGETHER ? (int)(end - start) : ROWS_TOGETHER;
        for (int q = 0; q < count; q++) {
            double *mask = masks + q * n_mask_vectors * LANES, *weighted = residual + q * width, *means_and_one = extended + q * (n + 1), any_observed = 0.0;
            const int64_t r = start + q;
            const double *value = x->values + r * n_features, *weight = x->weights + r * n_features, *means = x->means + r * n;
            for (int64_t d = 0; d < n_features && !x->complete; d++) {
                mask[d] = weight[d];
                any_observed = weight[d] > 0.0 ? 1.0 : any_observed;
            }
            mask[x->complete ? 0 : n_features] = x->complete ? 1.0 : any_observed;
            for (int64_t d = 0; d < n_features; d += COLUMNS_TOGETHER) {
                const int block = n_features - d < COLUMNS_TOGETHER ? (int)(n_features - d) : COLUMNS_TOGETHER;
                residuals(x, n, means, value, d, block, weighted + d);
            }
            for (int64_t d = 0; d < n_features; d++) {
                const double e = weighted[d];
                weighted[d] *= weight[d];
                residual_power[d] += weighted[d] * e;
            }
            for (int k = 0; k < n; k++) means_and_one[k] = means[k];
            means_and_one[n] = 1.0;
        }
        const lanes *mask = (const lanes *)masks, *weighted = (const lanes *)residual;
        add_products(count, 2 * packed, x->moments + start * 2 * packed, 2 * packed, mask, n_mask_vectors, (lanes *)observed_sums);
        add_products(count, n + 1, extended, n + 1, mask, n_mask_vectors, (lanes *)observed_sums + 2 * packed * n_mask_vectors);
        add_products(count, n + 1, extended, n + 1, weighted, vectors, (lanes *)residual_moments);
        for (int q = 0; q < count; q++) {
            const int64_t r = start + q, gap = x->next_gap[r];
            if (gap == x->n_gaps) continue;
            const double *mean = x->means + r * n, *next_mean = mean + n, *lag = x->lag_one + r * n_terms;
            const double *covariance = x->moments + r * 2 * packed, *next_covariance = covariance + 2 * packed;
            const double *diagonals = x->transition + gap * stride, *lag_off_diagonal = lag + n;
            double *to = transition_sums + gap * (3 * n_terms + 1);
            for (int k = 0; k < n_single; k++) {
                const double a = diagonals[k], innovation = next_mean[k] - a * mean[k], v = covariance[AT(k, k)];
                to[k] += innovation * innovation + next_covariance[AT(k, k)] - a * (2.0 * lag[k] - a * v);
                to[n_terms + k] += innovation * mean[k] + lag[k] - a * v;
                to[2 * n_terms + k] += mean[k] * mean[k] + v;
            }
            double *block = to + n_single;
            for (int k = n_single; k < first_triple; k += 2, lag_off_diagonal += 2, block += 4)
                add_block(2, k, n, diagonals, mean, next_mean, covariance, next_covariance, lag, lag_off_diagonal, n_terms, block);
            for (int k = first_triple; k < n; k += 3, lag_off_diagonal += 6, block += 9)
                add_block(3, k, n, diagonals, mean, next_mean, covariance, next_covariance, lag, lag_off_diagonal, n_terms, block);
            to[3 * n_terms] += 1.0;
        }
    }
}

/* Bytes of scratch memory for `eliminate` and `filter`, which it calls; all other functions use less. */
enum { SCRATCH = 8 * sizeof(matrix) + 2 * (STRIDE + 1) * STRIDE * sizeof(lanes) + 4 * sizeof(vector) + sizeof(lanes) };

const segments_kernels NAMED_BY_LEVEL = {
    .max_states = MAX_STATES, .size_of_group = sizeof(segments), .size_of_transition = sizeof(transition), .size_of_scratch = SCRATCH,
    .tabulate = tabulate, .eliminate = eliminate, .join = join, .refilter = refilter, .join_back = join_back, .smooth = smooth,
    .link = link_segments, .collapse = collapse, .likelihoods = likelihoods, .add_up = add_up,
};
