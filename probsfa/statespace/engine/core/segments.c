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
 * Segments depend on each other only through the state s before each of them. The algorithm has five steps:
 *   1. collapse: compute J and h of each row.
 *   2. eliminate: eliminate the first states of each segment until later states do not depend on s, up to rounding. The last
 *      eliminated state z and s then have the joint density exp(z' (X s + f) - z' F z / 2 + v' s - s' V s / 2), up to a
 *      constant. The following rows are filtered without s.
 *   3. join: compute the distribution of each s given all earlier rows.
 *   4. refilter: filter the eliminated rows, starting from s.
 *   5. join_back and smooth: compute the smoothed last state of each segment, then smooth all rows of each segment.
 *
 * Arguments and results are stored row by row, and symmetric matrices as lower triangles. Intermediate results are stored by
 * lanes. The relative rounding error of results is proportional to the precision: see recursions.c for very small noise.
 */
#include "matrices.h"

#define JOINED(k, level) segments_kernels_##k##_##level
#define NAMED(k, level) JOINED(k, level)
#ifdef STATES
#define MOST_STATES STATES
#define COUNT(w) ((void)(w), STATES)
#else
#define MOST_STATES UP_TO
#define COUNT(w) ((w)->n_states)
#endif
#define NAMED_BY_LEVEL NAMED(MOST_STATES, LEVEL)
#define AT(i, j) ((i) * ((i) + 1) / 2 + (j)) /* position of entry (i, j), j <= i, in a packed lower triangle */

/* A segment is eliminated until the largest entry of X is at most this number, which is tested once in a few rows. */
static const double NEGLIGIBLE = 1e-15;
enum { ROWS_BETWEEN_TESTS = 4 };

/* A block-diagonal matrix with blocks of one and two states (see dynamics.py): its diagonal, and in each row of a pair the
 * entry beside the diagonal. The first `alone` states are single, the others are pairs. */
typedef struct {
    vector diagonal, beside;
} blocks;

/* Transitions into a row of each segment: A, A' Q^-1, A' Q^-1 A and Q^-1; and log|Q|. */
typedef struct {
    blocks decay, cross_precision, previous_precision, innovation_precision;
    lanes log_det;
} transition;

/* Results of the steps for a group of segments. */
typedef struct {
    /* Of `eliminate`: F, X transposed and V; information vectors f of the last state and v of s. */
    matrix precision, cross, before;
    vector information, before_information;
    /* Of `join`: precision and information of s given earlier rows. Given the last state z of the segment and all rows up to
     * it, s has the covariance `spread` and the mean `constant` + gain z; the gain is stored transposed. */
    matrix start_precision, spread, gain;
    vector start_information, constant;
    /* Of `join_back` and `smooth`: smoothed moments of the last and the first state. */
    matrix end_covariance, first_covariance;
    vector end_mean;
    int64_t n_eliminated;
} segments;

#define NUMBERS lanes
#define STEP transition
#define GROUP segments
#include "kernels.h"
typedef segments_work work;

/* out = B x, for a state x. */
ALWAYS void move(int n, int alone, const blocks *b, const lanes *x, lanes *out) {
    for (int k = 0; k < n; k++) out[k] = b->diagonal[k] * x[k];
    for (int k = alone; k < n; k += 2) {
        out[k] += b->beside[k] * x[k + 1];
        out[k + 1] += b->beside[k + 1] * x[k];
    }
}

/* out = B' x; or x' B, for a row x of a matrix. */
ALWAYS void move_back(int n, int alone, const blocks *b, const lanes *x, lanes *out) {
    for (int k = 0; k < n; k++) out[k] = b->diagonal[k] * x[k];
    for (int k = alone; k < n; k += 2) {
        out[k] += b->beside[k + 1] * x[k + 1];
        out[k + 1] += b->beside[k] * x[k];
    }
}

/* Adds a symmetric matrix of blocks to a lower triangle. */
ALWAYS void add_blocks(int n, int alone, const blocks *b, matrix m) {
    for (int k = 0; k < n; k++) m[k][k] += b->diagonal[k];
    for (int k = alone; k < n; k += 2) m[k + 1][k] += b->beside[k + 1];
}

static inline int64_t row_of(const work *w, int64_t g, int lane, int64_t t) { return (g * LANES + lane) * w->length + t; }

static inline void into_lane_of_blocks(int n, int alone, const double *from, int lane, blocks *to) {
    for (int k = 0; k < n; k++) to->diagonal[k][lane] = from[k];
    for (int k = alone; k < n; k++) to->beside[k][lane] = from[n + k];
}

static inline void in_all_lanes(int n, const double *from, blocks *to) {
    for (int k = 0; k < n; k++) {
        to->diagonal[k] = all(from[k]);
        to->beside[k] = all(from[n + k]);
    }
}

/* The transitions into row t of the segments of a group: from the table `steps` if they are equal, otherwise written to
 * `room`. */
static inline const transition *step_into(const work *w, int n, int64_t g, int64_t t, transition *room) {
    int64_t gap[LANES];
    for (int l = 0; l < LANES; l++) {
        int64_t r = row_of(w, g, l, t);
        gap[l] = r < w->n_rows ? w->gap_index[r] : w->n_gaps;
    }
    if (w->steps && gap[0] == gap[1] && gap[0] == gap[2] && gap[0] == gap[3]) return w->steps + gap[0];
    for (int l = 0; l < LANES; l++) {
        const int64_t i = gap[l];
        into_lane_of_blocks(n, w->n_single, w->transition + 2 * i * n, l, &room->decay);
        into_lane_of_blocks(n, w->n_single, w->cross_precision + 2 * i * n, l, &room->cross_precision);
        into_lane_of_blocks(n, w->n_single, w->previous_precision + 2 * i * n, l, &room->previous_precision);
        into_lane_of_blocks(n, w->n_single, w->innovation_precision + 2 * i * n, l, &room->innovation_precision);
        room->log_det[l] = w->log_det[i];
    }
    return room;
}

/* Fills the table `steps` with the transition over each gap, equal in all lanes. */
static void tabulate(const work *w) {
    const int n = COUNT(w);
    for (int64_t i = 0; i <= w->n_gaps; i++) {
        transition *to = (transition *)w->steps + i;
        in_all_lanes(n, w->transition + 2 * i * n, &to->decay);
        in_all_lanes(n, w->cross_precision + 2 * i * n, &to->cross_precision);
        in_all_lanes(n, w->previous_precision + 2 * i * n, &to->previous_precision);
        in_all_lanes(n, w->innovation_precision + 2 * i * n, &to->innovation_precision);
        to->log_det = all(w->log_det[i]);
    }
}

/* Precision J (lower triangle) and information h of row t of each segment. */
static inline void rows_at(const work *w, int n, int64_t g, int64_t t, matrix precision, vector information) {
    const lanes *from = w->collapsed + (g * w->length + t) * (n + n * (n + 1) / 2);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) precision[i][j] = *from++;
    for (int i = 0; i < n; i++) information[i] = *from++;
}

/* S = (F + A' Q^-1 A)^-1; returns log|S^-1|. */
static inline lanes condition(int n, int alone, const matrix precision, const transition *step, matrix conditional, arena space) {
    (void)space;
    MATRIX(sum);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) sum[i][j] = precision[i][j];
    add_blocks(n, alone, &step->previous_precision, sum);
    return invert(n, sum, conditional);
}

/* Pi = Q^-1 - Q^-1 A S A' Q^-1, lower triangle. */
static inline void predict(int n, int alone, const matrix conditional, const transition *step, matrix predicted) {
    const lanes *const weight = step->cross_precision.diagonal, *const beside = step->cross_precision.beside;
    for (int i = 0; i < alone; i++)
        for (int j = 0; j <= i; j++) predicted[i][j] = -(weight[i] * conditional[i][j]) * weight[j];
    for (int i = alone; i < n; i += 2) {
        vector first, second;
        for (int j = 0; j < i + 2; j++) {
            first[j] = -(weight[i] * conditional[i][j] + beside[i + 1] * conditional[i + 1][j]);
            second[j] = -(beside[i] * conditional[i][j] + weight[i + 1] * conditional[i + 1][j]);
        }
        move_back(i + 2, alone, &step->cross_precision, first, predicted[i]);
        move_back(i + 2, alone, &step->cross_precision, second, predicted[i + 1]);
    }
    add_blocks(n, alone, &step->innovation_precision, predicted);
}

/* State of the filter at a row, before the update of the mean. */
typedef struct {
    matrix precision, predicted; /* F and Pi */
    vector moved, missed;        /* A m and h - J A m */
    lanes log_det;               /* log|F| of the previous row, minus log|S^-1| and log|Q| */
} filter_state;

/* Filters rows first..last of a group, from the state `at` of row first. Row -1 is the state before the segments. */
static void filter(const work *w, int64_t g, int64_t first, int64_t last, filter_state *at, lanes *information_of_last, arena space) {
    const int n = COUNT(w), alone = (int)w->n_single, packed = n * (n + 1) / 2;
    lanes *out = w->rows + (g * (w->length + 1) + first + 1) * (n + packed);
    MATRIX(precision);
    MATRIX(conditional);
    for (int64_t t = first; t <= last; t++, out += n + packed) {
        vector change, spread;
        lanes log_det = solve(n, at->precision, at->missed, change, space), distance = all(0.0);
        for (int i = 0; i < n; i++) out[i] = at->moved[i] + change[i];
        mirror(n, at->predicted);
        times(n, at->predicted, change, spread);
        for (int i = 0; i < n; i++) distance += change[i] * spread[i];
        lanes term = log_det - at->log_det + distance;
        if (t >= 0)
            for (int l = 0; l < LANES; l++) {
                int64_t r = row_of(w, g, l, t);
                if (r >= w->n_rows) continue;
                w->terms[r] = term[l];
                for (int i = 0; i < n; i++) w->filtered_means[r * n + i] = out[i][l];
            }
        if (t == w->length - 1) {
            if (information_of_last) {
                mirror(n, at->precision);
                times(n, at->precision, at->moved, spread);
                for (int i = 0; i < n; i++) information_of_last[i] = spread[i] + at->missed[i];
            }
            break;
        }
        transition room;
        const transition *step = step_into(w, n, g, t + 1, &room);
        rows_at(w, n, g, t + 1, precision, at->missed);
        mirror(n, precision);
        lanes next = condition(n, alone, at->precision, step, conditional, space);
        lanes *to = out + n;
        for (int i = 0; i < n; i++)
            for (int j = 0; j <= i; j++) *to++ = conditional[i][j];
        predict(n, alone, conditional, step, at->predicted);
        move(n, alone, &step->decay, out, at->moved);
        times(n, precision, at->moved, spread);
        for (int i = 0; i < n; i++) {
            at->missed[i] -= spread[i];
            for (int j = 0; j <= i; j++) at->precision[i][j] = at->predicted[i][j] + precision[i][j];
        }
        at->log_det = log_det - next - step->log_det;
    }
}

static inline double largest(int n, const matrix m) {
    double most = 0.0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int l = 0; l < LANES; l++) most = fmax(most, fabs(m[i][j][l]));
    return most;
}

/* Eliminates the first states of each segment of some groups until later states do not depend on the state before the
 * segment, and filters the following rows. */
static void eliminate(const work *w, int64_t first_group, int64_t end_group, char *scratch) {
    const int n = COUNT(w), alone = (int)w->n_single;
    arena space = {scratch};
    (void)space;
    SPACE(filter_state, at);
    MATRIX(precision);
    MATRIX(conditional);
    MATRIX(solved);
    MATRIX(products);
    for (int64_t g = first_group; g < end_group; g++) {
        segments *s = w->group + g;
        transition room;
        memset(at, 0, sizeof *at);
        const transition *step = step_into(w, n, g, 0, &room);
        rows_at(w, n, g, 0, at->precision, at->missed);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) s->cross[i][j] = s->before[i][j] = all(0.0);
            s->before_information[i] = all(0.0);
            s->cross[i][i] = step->cross_precision.diagonal[i];
        }
        for (int i = alone; i < n; i += 2) {
            s->cross[i][i + 1] = step->cross_precision.beside[i];
            s->cross[i + 1][i] = step->cross_precision.beside[i + 1];
        }
        add_blocks(n, alone, &step->innovation_precision, at->precision);
        add_blocks(n, alone, &step->previous_precision, s->before);
        int64_t t = 1;
        for (; t < w->length; t++) {
            if (t % ROWS_BETWEEN_TESTS == 0 && largest(n, s->cross) <= NEGLIGIBLE) break;
            vector information, conditional_mean, moved;
            step = step_into(w, n, g, t, &room);
            rows_at(w, n, g, t, precision, information);
            condition(n, alone, at->precision, step, conditional, space);
            times_transposed(n, s->cross, conditional, 0, solved);
            times(n, conditional, at->missed, conditional_mean);
            times_transposed(n, solved, s->cross, 1, products);
            for (int i = 0; i < n; i++) {
                s->before_information[i] += dot(conditional_mean, s->cross[i], 0, n);
                for (int j = 0; j <= i; j++) s->before[i][j] -= products[i][j];
            }
            predict(n, alone, conditional, step, at->precision);
            move_back(n, alone, &step->cross_precision, conditional_mean, moved);
            for (int i = 0; i < n; i++) {
                for (int j = 0; j <= i; j++) at->precision[i][j] += precision[i][j];
                move_back(n, alone, &step->cross_precision, solved[i], s->cross[i]);
                at->missed[i] = information[i] + moved[i];
            }
        }
        s->n_eliminated = t;
        filter(w, g, t - 1, w->length - 1, at, s->information, space);
        memcpy(s->precision, at->precision, sizeof at->precision);
    }
}

static inline void lane_of_matrix(int n, const matrix from, int lane, matrix to) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) to[i][j] = all(from[i][j][lane]);
}

static inline void lane_of_vector(int n, const vector from, int lane, vector to) {
    for (int i = 0; i < n; i++) to[i] = all(from[i][lane]);
}

static inline void into_lane_of_matrix(int n, const matrix from, int lane, matrix to) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) to[i][j][lane] = from[i][j][0];
}

static inline void into_lane_of_vector(int n, const vector from, int lane, vector to) {
    for (int i = 0; i < n; i++) to[i][lane] = from[i][0];
}

/* Computes the distributions of the states before the segments, one after the other. `precision_of_last` (K, K) and
 * `information_of_last` are those of the state before all rows, and then those of the last state. */
static void join(const work *w, int64_t n_groups, double *precision_of_last, double *information_of_last, char *scratch) {
    const int n = COUNT(w);
    arena space = {scratch};
    (void)space;
    MATRIX(precision);
    MATRIX(sum);
    MATRIX(cross);
    MATRIX(spread);
    MATRIX(solved);
    MATRIX(change);
    vector information;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) precision[i][j] = all(precision_of_last[i * n + j]);
        information[i] = all(information_of_last[i]);
    }
    for (int64_t i_segment = 0; i_segment < n_groups * LANES; i_segment++) {
        segments *s = w->group + i_segment / LANES;
        const int l = i_segment % LANES;
        vector combined_information, constant;
        into_lane_of_matrix(n, precision, l, s->start_precision);
        into_lane_of_vector(n, information, l, s->start_information);
        lane_of_matrix(n, s->before, l, sum);
        lane_of_vector(n, s->before_information, l, combined_information);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j <= i; j++) sum[i][j] += precision[i][j];
            combined_information[i] += information[i];
            for (int j = 0; j < n; j++) cross[i][j] = all(s->cross[j][i][l]); /* X */
        }
        invert(n, sum, spread);
        times(n, spread, combined_information, constant);
        times_transposed(n, cross, spread, 0, solved); /* the gain, transposed */
        times_transposed(n, solved, cross, 0, change);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) precision[i][j] = all(s->precision[i > j ? i : j][i > j ? j : i][l]) - change[i][j];
            information[i] = all(s->information[i][l]) + dot(cross[i], constant, 0, n);
        }
        into_lane_of_matrix(n, spread, l, s->spread);
        into_lane_of_matrix(n, solved, l, s->gain);
        into_lane_of_vector(n, constant, l, s->constant);
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
    SPACE(filter_state, at);
    for (int64_t g = first_group; g < end_group; g++) {
        const segments *s = w->group + g;
        memset(at, 0, sizeof *at);
        memcpy(at->precision, s->start_precision, sizeof at->precision);
        memcpy(at->missed, s->start_information, sizeof at->missed);
        filter(w, g, -1, s->n_eliminated - 1, at, 0, space);
    }
}

/* Computes the smoothed last states of all segments, from the mean (K,) and covariance (K, K) of that of the last row. */
static void join_back(const work *w, int64_t n_groups, const double *mean_of_last, const double *covariance_of_last, char *scratch) {
    const int n = COUNT(w);
    arena space = {scratch};
    (void)space;
    vector mean;
    MATRIX(covariance);
    MATRIX(gain);
    MATRIX(moved);
    MATRIX(change);
    for (int i = 0; i < n; i++) {
        mean[i] = all(mean_of_last[i]);
        for (int j = 0; j < n; j++) covariance[i][j] = all(covariance_of_last[i * n + j]);
    }
    for (int64_t i_segment = n_groups * LANES - 1; i_segment >= 0; i_segment--) {
        segments *s = w->group + i_segment / LANES;
        const int l = i_segment % LANES;
        vector constant;
        into_lane_of_vector(n, mean, l, s->end_mean);
        into_lane_of_matrix(n, covariance, l, s->end_covariance);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++) gain[i][j] = all(s->gain[j][i][l]);
        times_transposed(n, gain, covariance, 0, moved);
        times_transposed(n, moved, gain, 0, change);
        times(n, gain, mean, constant);
        for (int i = 0; i < n; i++) {
            mean[i] = all(s->constant[i][l]) + constant[i];
            for (int j = 0; j < n; j++) covariance[i][j] = all(s->spread[i][j][l]) + change[i][j];
        }
    }
}

/* Addresses to which the lanes write the results of row t, in an array with `size` numbers for each row. Lanes whose segment
 * has no such row write to `spare`. */
static inline void places(const work *w, int64_t g, int64_t t, double *base, int64_t size, double *spare, double *to[LANES]) {
    for (int l = 0; l < LANES; l++) {
        const int64_t r = row_of(w, g, l, t);
        to[l] = r >= 0 && r < w->n_rows ? base + r * size : spare;
    }
}

typedef double spare_row[2 * MOST * MOST];

/* Writes the smoothed moments of row t of each segment: in full, or as needed for sums over rows. */
static inline void store(const work *w, int n, int64_t g, int64_t t, const vector mean, const matrix covariance, int full, arena space) {
    (void)space;
    const int packed = n * (n + 1) / 2;
    double *to[LANES];
    SPACE(spare_row, spare);
    places(w, g, t, w->means, n, *spare, to);
    scatter(n, mean, to, 0);
    places(w, g, t, w->covariances, full ? n * n : 2 * packed, *spare, to);
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

/* Writes the lag-one covariance of row t of each segment, given as the covariance of state t (rows) with state t + 1: its
 * transpose in full, or the entries needed for sums over rows. */
static inline void store_lag(const work *w, int n, int64_t g, int64_t t, const matrix crossed, int full, arena space) {
    (void)space;
    double *to[LANES];
    SPACE(spare_row, spare);
    vector row;
    const int alone = (int)w->n_single;
    places(w, g, t, w->lag_one, full ? n * n : 2 * n - alone, *spare, to);
    for (int j = 0; full && j < n; j++) {
        for (int i = 0; i < n; i++) row[i] = crossed[i][j];
        scatter(n, row, to, j * n);
    }
    if (full) return;
    for (int i = 0; i < n; i++) row[i] = crossed[i][i];
    scatter(n, row, to, 0);
    for (int i = alone; i < n; i += 2) {
        row[i - alone] = crossed[i + 1][i];
        row[i - alone + 1] = crossed[i][i + 1];
    }
    scatter(n - alone, row, to, n);
}

/* Unpacks S, and computes the gain G = S A' Q^-1. */
static inline void unpack_gain(int n, int alone, const lanes *packed, const blocks *weight, matrix conditional, matrix gain) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) conditional[i][j] = conditional[j][i] = *packed++;
    for (int i = 0; i < n; i++) move_back(n, alone, weight, conditional[i], gain[i]);
}

/* Smooths some groups of segments from their last states. */
static void smooth(const work *w, int64_t first_group, int64_t end_group, int64_t full, char *scratch) {
    const int n = COUNT(w), alone = (int)w->n_single, stride = n + n * (n + 1) / 2;
    arena space = {scratch};
    (void)space;
    MATRIX(covariance);
    MATRIX(conditional);
    MATRIX(gain);
    MATRIX(crossed);
    for (int64_t g = first_group; g < end_group; g++) {
        segments *s = w->group + g;
        vector mean;
        memcpy(mean, s->end_mean, sizeof mean);
        memcpy(covariance, s->end_covariance, sizeof(matrix));
        store(w, n, g, w->length - 1, mean, covariance, full, space);
        const lanes *row = w->rows + (g * (w->length + 1) + w->length - 1) * stride;
        for (int64_t t = w->length - 2; t >= 0; t--, row -= stride) {
            transition room;
            vector missed, change;
            const transition *step = step_into(w, n, g, t + 1, &room);
            unpack_gain(n, alone, row + n, &step->cross_precision, conditional, gain);
            times_transposed(n, gain, covariance, 0, crossed);
            move(n, alone, &step->decay, row, missed);
            for (int i = 0; i < n; i++) missed[i] = mean[i] - missed[i];
            times(n, gain, missed, change);
            times_transposed(n, crossed, gain, 1, covariance);
            for (int i = 0; i < n; i++) {
                mean[i] = row[i] + change[i];
                for (int j = 0; j <= i; j++) covariance[j][i] = covariance[i][j] += conditional[i][j];
            }
            store(w, n, g, t, mean, covariance, full, space);
            store_lag(w, n, g, t, crossed, full, space);
        }
        memcpy(s->first_covariance, covariance, sizeof(matrix));
    }
}

/* Computes lag-one covariances between segments: of the first state of each with the last state of the previous one. */
static void link_segments(const work *w, int64_t n_groups, int64_t full, char *scratch) {
    const int n = COUNT(w), alone = (int)w->n_single, stride = n + n * (n + 1) / 2;
    arena space = {scratch};
    (void)space;
    MATRIX(conditional);
    MATRIX(gain);
    MATRIX(crossed);
    for (int64_t g = 0; g < n_groups; g++) {
        transition room;
        const transition *step = step_into(w, n, g, 0, &room);
        unpack_gain(n, alone, w->rows + g * (w->length + 1) * stride + n, &step->cross_precision, conditional, gain);
        times_transposed(n, gain, w->group[g].first_covariance, 0, crossed);
        store_lag(w, n, g, -1, crossed, full, space);
    }
}

#define VECTORS(count) (((count) + LANES - 1) / LANES)

typedef observations data;

enum { BLOCK = 32 };

/* out[p] = sum over columns d of weights[d] table[d][p], for p < count, added to out[p] unless `fresh`. The table has `width`
 * numbers for each column. */
ALWAYS void add_columns(const int count, int n_columns, const lanes *weights, const double *table, int64_t width, int fresh, lanes *out) {
    lanes sums[8];
    UNROLL8 for (int p = 0; p < count; p++) sums[p] = fresh ? all(0.0) : out[p];
    for (int d = 0; d < n_columns; d++, table += width)
        UNROLL8 for (int p = 0; p < count; p++) sums[p] += weights[d] * table[p];
    UNROLL8 for (int p = 0; p < count; p++) out[p] = sums[p];
}

/* The same for any count. */
static inline void collapse_onto(int count, int n_columns, const lanes *weights, const double *table, int fresh, lanes *out) {
    int p = 0;
    for (; p + 7 < count; p += 8) add_columns(8, n_columns, weights, table + p, count, fresh, out + p);
    table += p;
    out += p;
    switch (count - p) {
    case 7: add_columns(7, n_columns, weights, table, count, fresh, out); break;
    case 6: add_columns(6, n_columns, weights, table, count, fresh, out); break;
    case 5: add_columns(5, n_columns, weights, table, count, fresh, out); break;
    case 4: add_columns(4, n_columns, weights, table, count, fresh, out); break;
    case 3: add_columns(3, n_columns, weights, table, count, fresh, out); break;
    case 2: add_columns(2, n_columns, weights, table, count, fresh, out); break;
    case 1: add_columns(1, n_columns, weights, table, count, fresh, out);
    }
}

/* Computes the precisions J and information vectors h of all rows of some groups. If the weights of a row are those of the
 * previous row, its precision is copied. */
static void collapse(const data *x, int64_t first_group, int64_t end_group) {
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
            for (int64_t d = 0; d < n_features || d == 0; d += BLOCK) {
                const int count = n_features - d < BLOCK ? (int)(n_features - d) : BLOCK;
                lanes weights[BLOCK], centred[BLOCK];
                gather(count, weight, d, weights);
                gather(count, value, d, centred);
                for (int c = 0; c < count; c++) centred[c] = weights[c] * (centred[c] - x->offset[d + c]);
                if (!same_weights) collapse_onto(packed, count, weights, x->products + d * packed, d == 0, to);
                collapse_onto(n, count, centred, x->scaled + d * n, d == 0, to + packed);
            }
        }
    }
}

/* Residuals x - mu - C m of `count` columns of a row, from column d on. */
static inline void residuals(const data *x, int n, const double *means, const double *value, int64_t d, int count, double *out) {
    for (int b = 0; b < count; b++) out[b] = value[d + b] - x->offset[d + b];
    for (int k = 0; k < n; k++) {
        const double *loading = x->loadings + k * x->n_features + d, mean = means[k];
        for (int b = 0; b < count; b++) out[b] -= mean * loading[b];
    }
}

/* Completes the log densities of rows. `terms` has the terms of the states; the squared residuals at the filtered means, in
 * units of the noise variances, and the normalising constants of the noise are added, and the sum is multiplied by -1/2. */
static void likelihoods(const data *x, int64_t first, int64_t end) {
    const int n = COUNT(x);
    const int64_t n_features = x->n_features;
    for (int64_t r = first; r < end; r++) {
        const double *value = x->values + r * n_features, *weight = x->weights + r * n_features;
        lanes sums = all(0.0);
        int any = 0;
        for (int64_t d = 0; d < n_features; d += BLOCK) {
            const int count = n_features - d < BLOCK ? (int)(n_features - d) : BLOCK;
            double residual[BLOCK];
            residuals(x, n, x->means + r * n, value, d, count, residual);
            for (int b = 0; b < count; b++) {
                residual[b] = weight[d + b] * (residual[b] * residual[b] * x->reciprocal_noise[d + b] + x->log_norm[d + b]);
                any |= weight[d + b] > 0.0;
            }
            for (int b = count; b % LANES; b++) residual[b] = 0.0;
            for (int b = 0; b < count; b += LANES) sums += *(const lanes *)(residual + b);
        }
        const double sum = x->terms[r] + ((sums[0] + sums[1]) + (sums[2] + sums[3]));
        x->terms[r] = any ? -0.5 * sum : 0.0; /* exactly zero for a row without observed values */
    }
}

enum { ROWS_TOGETHER = 16 };

/* out[i][d] += sum over some rows of factors[row][i] weights[row][d], for `height` numbers i and `n_vectors` vectors d.
 * Factors have `size` numbers for each row, weights and `out` have `width` vectors. */
ALWAYS void add_tile(const int height, const int n_vectors, int n_rows, const double *factors, int64_t size, const lanes *weights, int64_t width, lanes *out) {
    lanes sums[4][3];
    UNROLL for (int i = 0; i < height; i++)
        UNROLL for (int d = 0; d < n_vectors; d++) sums[i][d] = out[i * width + d];
    for (int r = 0; r < n_rows; r++, factors += size, weights += width) {
        lanes w[3];
        UNROLL for (int d = 0; d < n_vectors; d++) w[d] = weights[d];
        UNROLL for (int i = 0; i < height; i++) {
            const lanes factor = all(factors[i]);
            UNROLL for (int d = 0; d < n_vectors; d++) sums[i][d] += factor * w[d];
        }
    }
    UNROLL for (int i = 0; i < height; i++)
        UNROLL for (int d = 0; d < n_vectors; d++) out[i * width + d] = sums[i][d];
}

/* The same for all `width` vectors. */
ALWAYS void add_strip(const int height, int n_rows, const double *factors, int64_t size, const lanes *weights, int64_t width, lanes *out) {
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

/* Adds the expected moments of the transition of a block of states z to z': E[(z' - A z) (z' - A z)'], E[(z' - A z) z'] and
 * E[z z']. They are computed from means, packed covariances, and the lag-one covariance of the block: its diagonal in `lags`,
 * its other entries in `beside`. */
ALWAYS void add_block(const int size, int first, int n, const double *decay, const double *now, const double *next, const double *variances, const double *laters, const double *lags, const double *beside, int n_terms, double *to) {
    double a[3][3], variance[3][3], later[3][3], lag[3][3], innovation[3], cross[3][3]; /* cross: Cov(z' - A z, z) */
    for (int i = 0; i < size; i++) {
        a[i][i] = decay[first + i];
        lag[i][i] = lags[first + i];
        for (int b = 1; b < size; b++) a[i][(i + b) % size] = decay[b * n + first + i];
        for (int j = 0; j < size; j++)
            if (j != i) lag[i][j] = *beside++;
        for (int j = 0; j <= i; j++) {
            variance[i][j] = variance[j][i] = variances[AT(first + i, first + j)];
            later[i][j] = later[j][i] = laters[AT(first + i, first + j)];
        }
    }
    for (int i = 0; i < size; i++) {
        innovation[i] = next[first + i];
        for (int l = 0; l < size; l++) innovation[i] -= a[i][l] * now[first + l];
        for (int j = 0; j < size; j++) {
            cross[i][j] = lag[i][j];
            for (int l = 0; l < size; l++) cross[i][j] -= a[i][l] * variance[l][j];
        }
    }
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++, to++) {
            double covariance = later[i][j]; /* of the innovations */
            for (int l = 0; l < size; l++) covariance -= a[i][l] * lag[j][l];
            for (int l = 0; l < size; l++) covariance -= cross[i][l] * a[j][l];
            to[0] += innovation[i] * innovation[j] + covariance;
            to[n_terms] += innovation[i] * now[first + j] + cross[i][j];
            to[2 * n_terms] += now[first + i] * now[first + j] + variance[i][j];
        }
}

/* Adds sums over rows first..end for the expected statistics, with P = K (K + 1) / 2 and W = D + 1 rounded up to whole SIMD
 * vectors:
 *   observed_sums (2 P + K + 1, W): sums of the packed covariances, of the packed products of means, of the means and of one, over the
 *       rows in which each column is observed, and (last column) over the rows in which any column is. If all rows are
 *       complete, all columns are equal and only the first vector is used.
 *   residual_moments (K + 1, W): sums of means and of one, times the residuals of each column.
 *   residual_power (D,): sums of squared residuals.
 *   transitions (U + 1, 3 L + 1): for each gap, the sums of `add_block` for all blocks, and the number of transitions.
 * `room` is scratch memory for ROWS_TOGETHER rows of 2 W + K + 1 numbers. */
static void add_up(const data *x, int64_t first, int64_t end, double *observed_sums, double *residual_moments, double *residual_power, double *transitions, double *room) {
    const int n = COUNT(x), alone = (int)x->n_single, packed = n * (n + 1) / 2;
    const int triples = n - 3 * (int)x->n_triples, n_terms = 2 * n - alone + 3 * (int)x->n_triples, stride = n * (x->n_triples ? 3 : 2);
    const int64_t n_features = x->n_features, vectors = VECTORS(n_features + 1), width = vectors * LANES;
    const int64_t n_mask_vectors = x->complete ? 1 : vectors;
    double *const masks = room, *const residual = masks + ROWS_TOGETHER * width, *const extended = residual + ROWS_TOGETHER * width;
    memset(room, 0, ROWS_TOGETHER * (2 * width + n + 1) * sizeof(double));
    for (int64_t start = first; start < end; start += ROWS_TOGETHER) {
        const int count = end - start < ROWS_TOGETHER ? (int)(end - start) : ROWS_TOGETHER;
        for (int q = 0; q < count; q++) {
            double *mask = masks + q * n_mask_vectors * LANES, *weighted = residual + q * width, *means_and_one = extended + q * (n + 1), any = 0.0;
            const int64_t r = start + q;
            const double *value = x->values + r * n_features, *weight = x->weights + r * n_features, *means = x->means + r * n;
            for (int64_t d = 0; d < n_features && !x->complete; d++) {
                mask[d] = weight[d];
                any = weight[d] > 0.0 ? 1.0 : any;
            }
            mask[x->complete ? 0 : n_features] = x->complete ? 1.0 : any;
            for (int64_t d = 0; d < n_features; d += BLOCK) {
                const int block = n_features - d < BLOCK ? (int)(n_features - d) : BLOCK;
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
            const double *now = x->means + r * n, *next = now + n, *lag = x->lag_one + r * n_terms;
            const double *variance = x->moments + r * 2 * packed, *later = variance + 2 * packed;
            const double *decay = x->transition + gap * stride, *beside = lag + n;
            double *to = transitions + gap * (3 * n_terms + 1);
            for (int k = 0; k < alone; k++) {
                const double a = decay[k], innovation = next[k] - a * now[k], v = variance[AT(k, k)];
                to[k] += innovation * innovation + later[AT(k, k)] - a * (2.0 * lag[k] - a * v);
                to[n_terms + k] += innovation * now[k] + lag[k] - a * v;
                to[2 * n_terms + k] += now[k] * now[k] + v;
            }
            double *block = to + alone;
            for (int k = alone; k < triples; k += 2, beside += 2, block += 4)
                add_block(2, k, n, decay, now, next, variance, later, lag, beside, n_terms, block);
            for (int k = triples; k < n; k += 3, beside += 6, block += 9)
                add_block(3, k, n, decay, now, next, variance, later, lag, beside, n_terms, block);
            to[3 * n_terms] += 1.0;
        }
    }
}

/* Bytes of scratch memory of the deepest chain of calls, that of `eliminate`, which calls `filter`. */
enum { SCRATCH = 8 * sizeof(matrix) + 2 * (MOST + 1) * MOST * sizeof(lanes) + 4 * sizeof(vector) + sizeof(lanes) };

const segments_kernels NAMED_BY_LEVEL = {
    .most_states = MOST_STATES, .size_of_group = sizeof(segments), .size_of_step = sizeof(transition), .size_of_scratch = SCRATCH,
    .tabulate = tabulate, .eliminate = eliminate, .join = join, .refilter = refilter, .join_back = join_back, .smooth = smooth,
    .link = link_segments, .collapse = collapse, .likelihoods = likelihoods, .add_up = add_up,
};
