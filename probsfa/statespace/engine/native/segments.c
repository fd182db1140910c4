/* Passes of the information form over segments of rows, four segments side by side in the lanes of vectors.
 *
 * What is computed is what engine/information_form.py explains, with the same names. The number of states may be given
 * to the compiler (-DSTATES=5), which then knows how long each loop is. What comes from outside and goes there is row after
 * row, symmetric matrices as their lower triangles; what passes keep for each other lies lane by lane. Products are of rows
 * with rows, several sums at a time: one sum alone would wait for its own last addition.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 4
#ifdef STATES
#define MOST STATES
#define JOINED(name, k) name##_##k
#define NAMED(name, k) JOINED(name, k)
#define PUBLIC(name) NAMED(name, STATES)
#define COUNT(w) ((void)(w), STATES)
#else
#define MOST 32
#define PUBLIC(name) name##_any
#define COUNT(w) ((w)->n_states)
#endif
#define AT(i, j) ((i) * ((i) + 1) / 2 + (j)) /* in a lower triangle, j <= i */

typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(8)));
typedef lanes vector[MOST];
typedef lanes matrix[MOST][MOST];

static const double NEGLIGIBLE = 1e-15;
enum { ROWS_AT_ONCE = 4 };

/* Transitions into a row of each segment: A, A' Q^-1, A' Q^-1 A and Q^-1; and log|Q|. */
typedef struct {
    vector decay, weight, known, inverse;
    lanes log_det;
} transition;

/* What segments say of the states before them and of their last ones; and what is found of the former. */
typedef struct {
    matrix precision, cross, before; /* F; the columns of X as rows; V */
    vector information, before_information;
    matrix start_precision, spread, gain; /* the columns of the gain as rows */
    vector start_information, constant;
    matrix end_covariance, first_covariance;
    vector end_mean;
    int64_t n_eliminated;
} segments;

typedef struct {
    int64_t n_states, n_rows, length, n_gaps;
    lanes *collapsed; /* of each group and row: precision, lower triangle, and information */
    const int32_t *gap_index;
    const double *decay, *weight, *known, *inverse, *log_det; /* (n_gaps + 1, K), and the last one (n_gaps + 1) */
    const transition *steps; /* the same in all lanes, for each gap; none where there are many */
    segments *group;
    lanes *rows; /* for each group length + 1 rows: filtered mean, and covariance given the next state */
    double *filtered_means, *terms;
    /* Moments given all rows: all of them, or lower triangles of covariances and of products of means, and diagonals. */
    double *means, *covariances, *lag_one;
} work;

static inline lanes all(double x) { return (lanes){x, x, x, x}; }

static inline int64_t row_of(const work *w, int64_t g, int lane, int64_t t) { return (g * LANES + lane) * w->length + t; }

/* The transitions into row t of each segment: those in all lanes, where they are the same, or gathered into `room`. */
static inline const transition *step_into(const work *w, int n, int64_t g, int64_t t, transition *room) {
    int64_t gap[LANES];
    for (int l = 0; l < LANES; l++) {
        int64_t r = row_of(w, g, l, t);
        gap[l] = r < w->n_rows ? w->gap_index[r] : w->n_gaps;
    }
    if (w->steps && gap[0] == gap[1] && gap[0] == gap[2] && gap[0] == gap[3]) return w->steps + gap[0];
    for (int l = 0; l < LANES; l++) {
        const int64_t i = gap[l];
        for (int k = 0; k < n; k++) {
            room->decay[k][l] = w->decay[i * n + k];
            room->weight[k][l] = w->weight[i * n + k];
            room->known[k][l] = w->known[i * n + k];
            room->inverse[k][l] = w->inverse[i * n + k];
        }
        room->log_det[l] = w->log_det[i];
    }
    return room;
}

/* Fills `steps`. */
void PUBLIC(tabulate)(const work *w) {
    const int n = COUNT(w);
    for (int64_t i = 0; i <= w->n_gaps; i++) {
        transition *to = (transition *)w->steps + i;
        for (int k = 0; k < n; k++) {
            to->decay[k] = all(w->decay[i * n + k]);
            to->weight[k] = all(w->weight[i * n + k]);
            to->known[k] = all(w->known[i * n + k]);
            to->inverse[k] = all(w->inverse[i * n + k]);
        }
        to->log_det = all(w->log_det[i]);
    }
}

/* Precision, lower triangle, and information of a row of each segment. */
static inline void rows_at(const work *w, int n, int64_t g, int64_t t, matrix precision, vector information) {
    const lanes *from = w->collapsed + (g * w->length + t) * (n + n * (n + 1) / 2);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) precision[i][j] = *from++;
    for (int i = 0; i < n; i++) information[i] = *from++;
}

typedef int64_t integers __attribute__((vector_size(LANES * sizeof(int64_t)), aligned(8)));

typedef union {
    lanes number;
    integers bits;
} parts_of_numbers;

/* The numbers that are positive and finite, and NaN in the place of others: what has gone wrong must be seen. */
static inline lanes if_positive(lanes x) {
    parts_of_numbers parts = {x};
    parts.bits |= ~((x > all(0.0)) & (x < all(INFINITY)));
    return parts.number;
}

/* Logarithms of positive normal numbers, or of NaN: of x = 2^e m with m near one, e log 2 + 2 artanh((m - 1) / (m + 1)). */
static inline lanes log_of(lanes x) {
    parts_of_numbers parts = {x};
    const integers over = parts.bits - 0x3fe6a09e667f3bcd; /* sqrt(1/2) */
    const integers exponent = over >> 52;
    parts.bits -= exponent << 52;
    const lanes s = (parts.number - 1.0) / (parts.number + 1.0), q = s * s;
    lanes sum = all(2.0 / 23.0);
    sum = sum * q + 2.0 / 21.0;
    sum = sum * q + 2.0 / 19.0;
    sum = sum * q + 2.0 / 17.0;
    sum = sum * q + 2.0 / 15.0;
    sum = sum * q + 2.0 / 13.0;
    sum = sum * q + 2.0 / 11.0;
    sum = sum * q + 2.0 / 9.0;
    sum = sum * q + 2.0 / 7.0;
    sum = sum * q + 2.0 / 5.0;
    sum = sum * q + 2.0 / 3.0;
    lanes e;
    for (int l = 0; l < LANES; l++) e[l] = (double)exponent[l];
    /* Nothing, or NaN, whose bits are as good as those of a number above. */
    const lanes nothing = x - x;
    return e * 0.693147180369123816490 + (2.0 * s + (s * q * sum + e * 1.90821492927058770002e-10)) + nothing;
}

static inline lanes dot(const lanes *a, const lanes *b, int from, int to) {
    lanes sum = all(0.0);
    for (int k = from; k < to; k++) sum += a[k] * b[k];
    return sum;
}

/* Products of a row with four rows. */
static inline void dot4(const lanes *a, const lanes *b0, const lanes *b1, const lanes *b2, const lanes *b3, int from, int to, lanes *out) {
    lanes s0 = all(0.0), s1 = s0, s2 = s0, s3 = s0;
    for (int k = from; k < to; k++) {
        lanes x = a[k];
        s0 += x * b0[k];
        s1 += x * b1[k];
        s2 += x * b2[k];
        s3 += x * b3[k];
    }
    out[0] = s0;
    out[1] = s1;
    out[2] = s2;
    out[3] = s3;
}

/* Products of two rows with four rows. */
static inline void dot8(const lanes *a0, const lanes *a1, const lanes (*b)[MOST], int to, lanes *out0, lanes *out1) {
    lanes s0 = all(0.0), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
    for (int k = 0; k < to; k++) {
        lanes x = a0[k], y = a1[k];
        s0 += x * b[0][k];
        t0 += y * b[0][k];
        s1 += x * b[1][k];
        t1 += y * b[1][k];
        s2 += x * b[2][k];
        t2 += y * b[2][k];
        s3 += x * b[3][k];
        t3 += y * b[3][k];
    }
    out0[0] = s0; out0[1] = s1; out0[2] = s2; out0[3] = s3;
    out1[0] = t0; out1[1] = t1; out1[2] = t2; out1[3] = t3;
}

/* out_ij = a_i . b_j, rows with rows; of a symmetric product the lower triangle, and a little above. */
static inline void times_transposed(int n, const matrix a, const matrix b, int lower, matrix out) {
    int i = 0;
    for (; i + 1 < n; i += 2) {
        int end = lower ? i + 2 : n, j = 0;
        for (; j + 3 < end; j += 4) dot8(a[i], a[i + 1], b + j, n, &out[i][j], &out[i + 1][j]);
        for (; j < end; j++) {
            out[i][j] = dot(a[i], b[j], 0, n);
            out[i + 1][j] = dot(a[i + 1], b[j], 0, n);
        }
    }
    for (; i < n; i++) {
        int end = lower ? i + 1 : n, j = 0;
        for (; j + 3 < end; j += 4) dot4(a[i], b[j], b[j + 1], b[j + 2], b[j + 3], 0, n, &out[i][j]);
        for (; j < end; j++) out[i][j] = dot(a[i], b[j], 0, n);
    }
}

static inline void mirror(int n, matrix m) {
    for (int i = 1; i < n; i++)
        for (int j = 0; j < i; j++) m[j][i] = m[i][j];
}

static inline void times(int n, const matrix m, const vector v, vector out) {
    int i = 0;
    for (; i + 3 < n; i += 4) dot4(v, m[i], m[i + 1], m[i + 2], m[i + 3], 0, n, out + i);
    for (; i < n; i++) out[i] = dot(m[i], v, 0, n);
}

/* L below its diagonal of ones, and D^-1, of a matrix L D L', of which the lower triangle is read; the logarithm of its
 * determinant. The rows of L D are in `scaled`. */
static inline lanes factorise(int n, const matrix m, matrix factor, matrix scaled, vector reciprocal) {
    lanes log_det = all(0.0), determinant = all(1.0);
    for (int j = 0; j < n; j++) {
        const lanes pivot = if_positive(m[j][j] - dot(scaled[j], factor[j], 0, j));
        determinant *= pivot;
        if (j % 4 == 3 || j == n - 1) { /* more might be too large a number */
            log_det += log_of(if_positive(determinant));
            determinant = all(1.0);
        }
        reciprocal[j] = 1.0 / pivot;
        int i = j + 1;
        for (; i + 3 < n; i += 4) {
            lanes sums[4];
            dot4(factor[j], scaled[i], scaled[i + 1], scaled[i + 2], scaled[i + 3], 0, j, sums);
            for (int b = 0; b < 4; b++) {
                scaled[i + b][j] = m[i + b][j] - sums[b];
                factor[i + b][j] = scaled[i + b][j] * reciprocal[j];
            }
        }
        for (; i < n; i++) {
            scaled[i][j] = m[i][j] - dot(scaled[i], factor[j], 0, j);
            factor[i][j] = scaled[i][j] * reciprocal[j];
        }
    }
    return log_det;
}

/* Inverse, all of it, of a symmetric positive definite matrix; gives the logarithm of the matrix's determinant. */
static inline lanes invert(int n, const matrix m, matrix inverse) {
    matrix factor, scaled, root; /* root: the transposed inverse of L, row j from column j on */
    vector reciprocal;
    const lanes log_det = factorise(n, m, factor, scaled, reciprocal);
    for (int i = 0; i < n; i++) {
        root[i][i] = all(1.0);
        for (int j = 0; j < i; j++) root[j][i] = -dot(factor[i], root[j], j, i);
    }
    for (int i = 0; i < n; i++)
        for (int k = i; k < n; k++) scaled[i][k] = root[i][k] * reciprocal[k];
    for (int i = 0; i < n; i++) {
        int j = 0;
        for (; j + 3 <= i; j += 4) dot4(scaled[i], root[j], root[j + 1], root[j + 2], root[j + 3], i, n, &inverse[i][j]);
        for (; j <= i; j++) inverse[i][j] = dot(scaled[i], root[j], i, n);
    }
    mirror(n, inverse);
    return log_det;
}

/* Solves with a symmetric positive definite matrix; gives the logarithm of its determinant. */
static inline lanes solve(int n, const matrix m, const vector right, vector solution) {
    matrix factor, scaled;
    vector reciprocal;
    const lanes log_det = factorise(n, m, factor, scaled, reciprocal);
    for (int i = 0; i < n; i++) solution[i] = right[i] - dot(factor[i], solution, 0, i);
    for (int i = n - 1; i >= 0; i--) {
        solution[i] *= reciprocal[i];
        for (int k = i + 1; k < n; k++) solution[i] -= factor[k][i] * solution[k];
    }
    return log_det;
}

/* S = (F + A' Q^-1 A)^-1; gives log|S^-1|. */
static inline lanes condition(int n, const matrix precision, const transition *step, matrix conditional) {
    matrix sum;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) sum[i][j] = precision[i][j];
        sum[i][i] += step->known[i];
    }
    return invert(n, sum, conditional);
}

/* Pi = Q^-1 - Q^-1 A S A' Q^-1, lower triangle. */
static inline void predict(int n, const matrix conditional, const transition *step, matrix predicted) {
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) predicted[i][j] = -(step->weight[i] * conditional[i][j]) * step->weight[j];
        predicted[i][i] += step->inverse[i];
    }
}

typedef struct {
    matrix precision, predicted;
    vector moved, missed;
    lanes log_det; /* log|F| of the row before, less log|S^-1| and log|Q| */
} passing;

/* Filters rows first..last of a group; row -1 is the state before the segments. What is in `at` is of row first. */
static void filter(const work *w, int64_t g, int64_t first, int64_t last, passing *at, lanes *information_of_last) {
    const int n = COUNT(w), packed = n * (n + 1) / 2;
    lanes *out = w->rows + (g * (w->length + 1) + first + 1) * (n + packed);
    for (int64_t t = first; t <= last; t++, out += n + packed) {
        vector change, spread;
        matrix precision, conditional;
        lanes log_det = solve(n, at->precision, at->missed, change), distance = all(0.0);
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
        lanes next = condition(n, at->precision, step, conditional);
        lanes *to = out + n;
        for (int i = 0; i < n; i++)
            for (int j = 0; j <= i; j++) *to++ = conditional[i][j];
        predict(n, conditional, step, at->predicted);
        for (int i = 0; i < n; i++) at->moved[i] = step->decay[i] * out[i];
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

/* Eliminates the first rows of some groups of segments, as long as later states depend on those before the segments, and
 * filters the rows after these. */
void PUBLIC(eliminate)(const work *w, int64_t first_group, int64_t end_group) {
    const int n = COUNT(w);
    for (int64_t g = first_group; g < end_group; g++) {
        segments *s = w->group + g;
        transition room;
        passing at;
        memset(&at, 0, sizeof at);
        const transition *step = step_into(w, n, g, 0, &room);
        rows_at(w, n, g, 0, at.precision, at.missed);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) s->cross[i][j] = s->before[i][j] = all(0.0);
            s->before_information[i] = all(0.0);
            at.precision[i][i] += step->inverse[i];
            s->cross[i][i] = step->weight[i];
            s->before[i][i] = step->known[i];
        }
        int64_t t = 1;
        for (; t < w->length; t++) {
            if (t % ROWS_AT_ONCE == 0 && largest(n, s->cross) <= NEGLIGIBLE) break;
            matrix precision, conditional, solved, products;
            vector information, known;
            step = step_into(w, n, g, t, &room);
            rows_at(w, n, g, t, precision, information);
            condition(n, at.precision, step, conditional);
            times_transposed(n, s->cross, conditional, 0, solved);
            times(n, conditional, at.missed, known);
            times_transposed(n, solved, s->cross, 1, products);
            for (int i = 0; i < n; i++) {
                s->before_information[i] += dot(known, s->cross[i], 0, n);
                for (int j = 0; j <= i; j++) s->before[i][j] -= products[i][j];
            }
            predict(n, conditional, step, at.precision);
            for (int i = 0; i < n; i++) {
                for (int j = 0; j <= i; j++) at.precision[i][j] += precision[i][j];
                for (int j = 0; j < n; j++) s->cross[i][j] = step->weight[j] * solved[i][j];
                at.missed[i] = information[i] + step->weight[i] * known[i];
            }
        }
        s->n_eliminated = t;
        filter(w, g, t - 1, w->length - 1, &at, s->information);
        memcpy(s->precision, at.precision, sizeof at.precision);
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

/* Runs through the borders from the state before all rows, and leaves precision (K, K) and information of the last. */
void PUBLIC(join)(const work *w, int64_t n_groups, double *precision_of_last, double *information_of_last) {
    const int n = COUNT(w);
    matrix precision;
    vector information;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) precision[i][j] = all(precision_of_last[i * n + j]);
        information[i] = all(information_of_last[i]);
    }
    for (int64_t i_segment = 0; i_segment < n_groups * LANES; i_segment++) {
        segments *s = w->group + i_segment / LANES;
        const int l = i_segment % LANES;
        matrix sum, cross, spread, solved, change;
        vector known, constant;
        into_lane_of_matrix(n, precision, l, s->start_precision);
        into_lane_of_vector(n, information, l, s->start_information);
        lane_of_matrix(n, s->before, l, sum);
        lane_of_vector(n, s->before_information, l, known);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j <= i; j++) sum[i][j] += precision[i][j];
            known[i] += information[i];
            for (int j = 0; j < n; j++) cross[i][j] = all(s->cross[j][i][l]); /* X itself */
        }
        invert(n, sum, spread);
        times(n, spread, known, constant);
        times_transposed(n, cross, spread, 0, solved); /* rows: columns of the gain on the last state */
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

/* Filters the rows that were eliminated, from the states before the segments. */
void PUBLIC(refilter)(const work *w, int64_t first_group, int64_t end_group) {
    for (int64_t g = first_group; g < end_group; g++) {
        const segments *s = w->group + g;
        passing at;
        memset(&at, 0, sizeof at);
        memcpy(at.precision, s->start_precision, sizeof at.precision);
        memcpy(at.missed, s->start_information, sizeof at.missed);
        filter(w, g, -1, s->n_eliminated - 1, &at, 0);
    }
}

/* Last states of all segments given all rows, from that of the last row: mean (K,) and covariance (K, K). */
void PUBLIC(join_back)(const work *w, int64_t n_groups, const double *mean_of_last, const double *covariance_of_last) {
    const int n = COUNT(w);
    vector mean;
    matrix covariance;
    for (int i = 0; i < n; i++) {
        mean[i] = all(mean_of_last[i]);
        for (int j = 0; j < n; j++) covariance[i][j] = all(covariance_of_last[i * n + j]);
    }
    for (int64_t i_segment = n_groups * LANES - 1; i_segment >= 0; i_segment--) {
        segments *s = w->group + i_segment / LANES;
        const int l = i_segment % LANES;
        matrix gain, moved, change;
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

static inline void store(const work *w, int n, int64_t r, int l, const vector mean, const matrix covariance, int full) {
    const int packed = n * (n + 1) / 2;
    double *to = w->covariances + r * (full ? n * n : 2 * packed), *here = w->means + r * n;
    for (int i = 0; i < n; i++) here[i] = mean[i][l];
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            if (full) {
                to[i * n + j] = to[j * n + i] = covariance[i][j][l];
            } else {
                to[packed] = here[i] * here[j];
                *to++ = covariance[i][j][l];
            }
        }
}

/* Of the covariance of this state (rows) with the next one the transposed, or its diagonal. */
static inline void store_lag(const work *w, int n, int64_t r, int l, const matrix crossed, int full) {
    double *to = w->lag_one + r * (full ? n * n : n);
    for (int i = 0; i < n; i++) {
        if (full)
            for (int j = 0; j < n; j++) to[j * n + i] = crossed[i][j][l];
        else
            to[i] = crossed[i][i][l];
    }
}

static inline void unpack_gain(int n, const lanes *packed, const vector weight, matrix conditional, matrix gain) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) conditional[i][j] = conditional[j][i] = *packed++;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) gain[i][j] = conditional[i][j] * weight[j];
}

/* Smooths some groups of segments from their last states. */
void PUBLIC(smooth)(const work *w, int64_t first_group, int64_t end_group, int64_t full) {
    const int n = COUNT(w), stride = n + n * (n + 1) / 2;
    for (int64_t g = first_group; g < end_group; g++) {
        segments *s = w->group + g;
        vector mean;
        matrix covariance;
        memcpy(mean, s->end_mean, sizeof mean);
        memcpy(covariance, s->end_covariance, sizeof covariance);
        for (int l = 0; l < LANES; l++) {
            int64_t r = row_of(w, g, l, w->length - 1);
            if (r < w->n_rows) store(w, n, r, l, mean, covariance, full);
        }
        const lanes *row = w->rows + (g * (w->length + 1) + w->length - 1) * stride;
        for (int64_t t = w->length - 2; t >= 0; t--, row -= stride) {
            transition room;
            matrix conditional, gain, crossed;
            vector missed, change;
            const transition *step = step_into(w, n, g, t + 1, &room);
            unpack_gain(n, row + n, step->weight, conditional, gain);
            times_transposed(n, gain, covariance, 0, crossed);
            for (int i = 0; i < n; i++) missed[i] = mean[i] - step->decay[i] * row[i];
            times(n, gain, missed, change);
            times_transposed(n, crossed, gain, 1, covariance);
            for (int i = 0; i < n; i++) {
                mean[i] = row[i] + change[i];
                for (int j = 0; j <= i; j++) covariance[j][i] = covariance[i][j] += conditional[i][j];
            }
            for (int l = 0; l < LANES; l++) {
                int64_t r = row_of(w, g, l, t);
                if (r >= w->n_rows) continue;
                store(w, n, r, l, mean, covariance, full);
                store_lag(w, n, r, l, crossed, full);
            }
        }
        memcpy(s->first_covariance, covariance, sizeof covariance);
    }
}

/* Covariances of the first state of each segment with the state before it, which is the last of another segment. */
void PUBLIC(link)(const work *w, int64_t n_groups, int64_t full) {
    const int n = COUNT(w), stride = n + n * (n + 1) / 2;
    for (int64_t g = 0; g < n_groups; g++) {
        transition room;
        matrix conditional, gain, crossed;
        const transition *step = step_into(w, n, g, 0, &room);
        unpack_gain(n, w->rows + g * (w->length + 1) * stride + n, step->weight, conditional, gain);
        times_transposed(n, gain, w->group[g].first_covariance, 0, crossed);
        for (int l = 0; l < LANES; l++) {
            int64_t r = row_of(w, g, l, 0) - 1;
            if (r >= 0 && r < w->n_rows) store_lag(w, n, r, l, crossed, full);
        }
    }
}

#define VECTORS(count) (((count) + LANES - 1) / LANES)

/* Rows and columns of the data, and what is known of the columns. */
typedef struct {
    int64_t n_states, n_features, n_rows, length, n_gaps;
    const double *values, *weights;
    const double *offset, *reciprocal_noise, *log_norm, *loadings; /* (D,), (D,), (D,) and (K, D) */
    const lanes *scaled, *products; /* of each column: C' / r, and the triangle of C' C / r, filled up to whole vectors */
    double *collapsed;
    const double *means;
    double *terms;
    const double *moments, *lag_one; /* as `smooth` leaves them for sums */
    const int32_t *next_gap;         /* from each row to the next */
    const double *decay;
} data;

/* What rows first..end say of the states, where `eliminate` finds it: precisions and information. */
void PUBLIC(collapse)(const data *x, int64_t first, int64_t end) {
    const int n = COUNT(x), packed = n * (n + 1) / 2, of_products = VECTORS(packed), of_states = VECTORS(n);
    const int64_t n_features = x->n_features;
    for (int64_t r = first; r < end; r++) {
        const double *value = x->values + r * n_features, *weight = x->weights + r * n_features;
        lanes precision[VECTORS(MOST * (MOST + 1) / 2)], information[VECTORS(MOST)];
        for (int p = 0; p < of_products; p++) precision[p] = all(0.0);
        for (int k = 0; k < of_states; k++) information[k] = all(0.0);
        for (int64_t d = 0; d < n_features; d++) {
            const lanes *products = x->products + d * of_products, *scaled = x->scaled + d * of_states;
            const lanes much = all(weight[d]), centred = all(weight[d] * (value[d] - x->offset[d]));
            for (int p = 0; p < of_products; p++) precision[p] += much * products[p];
            for (int k = 0; k < of_states; k++) information[k] += centred * scaled[k];
        }
        const int64_t segment = r / x->length, t = r % x->length;
        double *to = x->collapsed + (segment / LANES * x->length + t) * (packed + n) * LANES + segment % LANES;
        const double *from = (const double *)precision;
        for (int p = 0; p < packed; p++) to[p * LANES] = from[p];
        to += packed * LANES;
        from = (const double *)information;
        for (int k = 0; k < n; k++) to[k * LANES] = from[k];
    }
}

enum { BLOCK = 32 };

/* What the means of a row leave of some columns. */
static inline void residuals(const data *x, int n, const double *means, const double *value, int64_t d, int count, double *out) {
    for (int b = 0; b < count; b++) out[b] = value[d + b] - x->offset[d + b];
    for (int k = 0; k < n; k++) {
        const double *loading = x->loadings + k * x->n_features + d, mean = means[k];
        for (int b = 0; b < count; b++) out[b] -= mean * loading[b];
    }
}

/* Adds the squares of what filtered means leave, in units of the noise, and normalisers; and takes half, with a minus. */
void PUBLIC(likelihoods)(const data *x, int64_t first, int64_t end) {
    const int n = COUNT(x);
    const int64_t n_features = x->n_features;
    for (int64_t r = first; r < end; r++) {
        const double *value = x->values + r * n_features, *weight = x->weights + r * n_features;
        double sum = x->terms[r], any = 0.0;
        for (int64_t d = 0; d < n_features; d++) any = weight[d] > 0.0 ? 1.0 : any;
        for (int64_t d = 0; d < n_features; d += BLOCK) {
            const int count = n_features - d < BLOCK ? (int)(n_features - d) : BLOCK;
            double left[BLOCK];
            residuals(x, n, x->means + r * n, value, d, count, left);
            for (int b = 0; b < count; b++)
                left[b] = weight[d + b] * (left[b] * left[b] * x->reciprocal_noise[d + b] + x->log_norm[d + b]);
            for (int b = 0; b < count; b++) sum += left[b];
        }
        x->terms[r] = any > 0.0 ? -0.5 * sum : 0.0; /* without rounding where nothing is seen */
    }
}

enum { ROWS_TOGETHER = 4 };

/* out[i][d] += sum over rows of factors[row][i] weights[row][d], of which there are `width` vectors. */
static inline void add_products(int count, int height, int64_t width, const double *const *factors, const lanes *const *weights, lanes *out) {
    const lanes *w0 = weights[0], *w1 = weights[1], *w2 = weights[2], *w3 = weights[3];
    for (int i = 0; i < height; i++, out += width) {
        lanes a[ROWS_TOGETHER];
        for (int q = 0; q < ROWS_TOGETHER; q++) a[q] = all(q < count ? factors[q][i] : 0.0);
        for (int64_t d = 0; d < width; d++) out[d] += (a[0] * w0[d] + a[1] * w1[d]) + (a[2] * w2[d] + a[3] * w3[d]);
    }
}

/* Adds up, over rows first..end: of triangles of covariances and of products of means, of means and of one (2 P + K + 1)
 * the sums over the rows in which each column is seen, and in which any is (D + 1, in whole vectors); of the means and of
 * one those times the residuals (K + 1; D + 1 in whole vectors); the squares of these (D,); and the terms of transitions
 * over each gap (U + 1, 3 K + 1). `room` has four rows of two times those vectors, and of K + 1 numbers. */
void PUBLIC(add_up)(const data *x, int64_t first, int64_t end, lanes *seen, lanes *residual_moments, double *residual_power, double *transitions, double *room) {
    const int n = COUNT(x), packed = n * (n + 1) / 2;
    const int64_t n_features = x->n_features, vectors = VECTORS(n_features + 1), width = vectors * LANES, size = 2 * width + n + 1;
    memset(room, 0, ROWS_TOGETHER * size * sizeof(double));
    for (int64_t start = first; start < end; start += ROWS_TOGETHER) {
        const int count = end - start < ROWS_TOGETHER ? (int)(end - start) : ROWS_TOGETHER;
        const double *moments[ROWS_TOGETHER], *extended[ROWS_TOGETHER];
        const lanes *mask[ROWS_TOGETHER], *weighted[ROWS_TOGETHER];
        for (int q = 0; q < ROWS_TOGETHER; q++) {
            double *own = room + q * size, *left = own + width, *one = left + width;
            mask[q] = (const lanes *)own;
            weighted[q] = (const lanes *)left;
            extended[q] = one;
            if (q >= count) continue;
            const int64_t r = start + q;
            const double *value = x->values + r * n_features, *weight = x->weights + r * n_features, *means = x->means + r * n;
            double any = 0.0;
            moments[q] = x->moments + r * 2 * packed;
            for (int64_t d = 0; d < n_features; d++) {
                own[d] = weight[d];
                any = weight[d] > 0.0 ? 1.0 : any;
            }
            own[n_features] = any;
            for (int64_t d = 0; d < n_features; d += BLOCK) {
                const int block = n_features - d < BLOCK ? (int)(n_features - d) : BLOCK;
                residuals(x, n, means, value, d, block, left + d);
            }
            for (int64_t d = 0; d < n_features; d++) {
                const double e = left[d];
                left[d] *= weight[d];
                residual_power[d] += left[d] * e;
            }
            for (int k = 0; k < n; k++) one[k] = means[k];
            one[n] = 1.0;
        }
        add_products(count, 2 * packed, vectors, moments, mask, seen);
        add_products(count, n + 1, vectors, extended, mask, seen + 2 * packed * vectors);
        add_products(count, n + 1, vectors, extended, weighted, residual_moments);
        for (int q = 0; q < count; q++) {
            const int64_t r = start + q, gap = x->next_gap[r];
            const double *now = x->means + r * n, *next = now + n, *lag = x->lag_one + r * n;
            const double *variance = x->moments + r * 2 * packed, *later = variance + 2 * packed;
            const double *decay = x->decay + gap * n;
            double *to = transitions + gap * (3 * n + 1);
            if (gap == x->n_gaps) continue;
            for (int k = 0; k < n; k++) {
                const double a = decay[k], moved = next[k] - a * now[k], own = variance[AT(k, k)];
                to[k] += moved * moved + later[AT(k, k)] - a * (2.0 * lag[k] - a * own);
                to[n + k] += moved * now[k] + lag[k] - a * own;
                to[2 * n + k] += now[k] * now[k] + own;
            }
            to[3 * n] += 1.0;
        }
    }
}

int64_t PUBLIC(size_of_group)(void) { return sizeof(segments); }
int64_t PUBLIC(size_of_step)(void) { return sizeof(transition); }
