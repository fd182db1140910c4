/* Square-root Kalman filter and smoother, row by row, by orthogonal transformations only.
 *
 * A covariance P is represented by a root N with P = N' N. The observations of a row are reduced to at most K numbers
 * y = U z + unit noise, with U from a QR factorisation of R^-1/2 C. Each step triangularises one stack of matrices by
 * Householder reflections (Kailath, Sayed & Hassibi 2000, chapter 12). Prediction of z' = A z + e, Cov e = Q = E' E:
 *
 *     [ E     0 ]        [ N'  M ]      N'' N' = A P A' + Q,   N'' M = A P
 *     [ N A'  N ]   ->   [ 0   S ]      G = M' N'^-T: gain of z on z';   S' S = P - G A P = Cov(z | z')
 *
 * Here N' on the right is the root of the predicted covariance, and N'' its transpose. Update with y, where N is now the
 * predicted root and V = U N':
 *
 *     [ I    0         ]        [ B  h ]      B' B = I + V' V
 *     [ V    y - U m   ]   ->   [ 0  . ]      N <- B^-T N,   m <- m + N' h,   s = B^-1 h
 *
 * No covariances are subtracted and Q is never inverted, so that results are accurate also for closely spaced rows and very
 * small noise. In a series of rows with equal weights and gaps, the matrices converge to a steady state. From then on only
 * means are computed, by the same reflections.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels.h"

#define JOINED(name, level) name##_##level
#define NAMED(name, level) JOINED(name, level)
#define ALWAYS static inline __attribute__((always_inline))
/* M_PI is not in the C standard: headers of Windows, and of musl without extensions, do not have it. */
#define TWO_PI 6.283185307179586476925286766559
/* Largest change of a root, relative to the standard deviation of each state, that counts as a rounding error. */
static const double UNCHANGED = 1e-14;
/* Smallest squared length of a vector that is reflected. The factor of a reflection is the reciprocal of this length, which
 * would overflow below. Residuals of linearly dependent columns in the QR factorisation may be that small. */
static const double SHORTEST = DBL_MIN;

ALWAYS void copy(int64_t count, const double *from, double *to) { memcpy(to, from, count * sizeof(double)); }
ALWAYS void clear(int64_t count, double *to) { memset(to, 0, count * sizeof(double)); }

ALWAYS double dot(int n, const double *a, const double *b) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

ALWAYS void add(int n, double factor, const double *restrict from, double *restrict to) {
    for (int i = 0; i < n; i++) to[i] += factor * from[i];
}

/* out = M x. */
ALWAYS void times(int rows, int n, const double *m, const double *x, double *out) {
    for (int i = 0; i < rows; i++) out[i] = dot(n, m + (int64_t)i * n, x);
}

/* out = A x, for a band matrix with `bandwidth` diagonals on each side of the main diagonal. */
ALWAYS void move(int n, int bandwidth, const double *a, const double *x, double *out) {
    for (int i = 0; i < n; i++) {
        const int from = i > bandwidth ? i - bandwidth : 0, to = i + bandwidth < n ? i + bandwidth + 1 : n;
        out[i] = dot(to - from, a + i * n + from, x + from);
    }
}

/* out += x' M. */
ALWAYS void add_times_rows(int rows, int n, const double *x, const double *m, double *out) {
    for (int i = 0; i < rows; i++) add(n, x[i], m + (int64_t)i * n, out);
}

/* out = N' N. */
ALWAYS void square(int n, const double *root, double *out) {
    clear(n * n, out);
    for (int i = 0; i < n; i++)
        for (int a = 0; a < n; a++) add(n, root[i * n + a], root + i * n, out + a * n);
}

/* Transforms a stack of an upper triangle (n rows, `top`) and `below` further rows (`bottom`) to an upper triangle by
 * Householder reflections. Rows have `width` numbers; the triangle consists of the first n. One pass over the rows below
 * applies a reflection and computes the dot products for the next one. `now` and `next` are scratch memory for `width` numbers
 * each. On return, the first n numbers of the rows below, `firsts` (n,) and `factors` (n,) define the reflections: see
 * `reflect`. */
ALWAYS void triangularise(int n, int below, int width, double *restrict top, double *restrict bottom, double *restrict now, double *restrict next, double *restrict firsts, double *restrict factors) {
    double power = 0.0;
    clear(width, now);
    for (int i = 0; i < below; i++) {
        const double *const row = bottom + (int64_t)i * width;
        power += row[0] * row[0];
        add(width, row[0], row, now);
    }
    for (int j = 0; j < n; j++) {
        double *const pivots = top + (int64_t)j * width;
        const double pivot = pivots[j], length = pivot * pivot + power, norm = length >= SHORTEST ? sqrt(length) : 0.0;
        const double alpha = pivot > 0.0 ? -norm : norm, first = pivot - alpha, beta = norm > 0.0 ? -1.0 / (alpha * first) : 0.0;
        const int left = width - j - 1;
        pivots[j] = alpha;
        firsts[j] = first;
        factors[j] = beta;
        for (int c = j + 1; c < width; c++) {
            now[c] = beta * (first * pivots[c] + now[c]);
            pivots[c] -= first * now[c];
        }
        power = 0.0;
        clear(left, next + j + 1);
        for (int i = 0; i < below; i++) {
            double *const row = bottom + (int64_t)i * width;
            add(left, -row[j], now + j + 1, row + j + 1);
            if (j + 1 == n) continue;
            power += row[j + 1] * row[j + 1];
            add(left, row[j + 1], row + j + 1, next + j + 1);
        }
        double *const other = now;
        now = next;
        next = other;
    }
}

/* Applies the reflections of `triangularise` to a column with entries `upper` in the rows of the triangle and entries `lower`
 * in the rows below it. */
ALWAYS void reflect(int n, int below, int width, const double *bottom, const double *firsts, const double *factors, double *upper, double *lower) {
    for (int j = 0; j < n; j++) {
        double sum = firsts[j] * upper[j];
        for (int i = 0; i < below; i++) sum += bottom[(int64_t)i * width + j] * lower[i];
        sum *= factors[j];
        upper[j] -= firsts[j] * sum;
        for (int i = 0; i < below; i++) lower[i] -= bottom[(int64_t)i * width + j] * sum;
    }
}

/* Reduction of the observations of a row to at most K numbers with unit noise: Householder reflections of the QR factorisation
 * of R^-1/2 C. It is the same for rows with the same weights. */
typedef struct {
    int rank;
    double *scale, *reflections, *factors, *triangle; /* (D,), (K, D), (K,) and U (K, K), of which `rank` rows are used */
} reduction;

ALWAYS void reduce_columns(const rows_work *w, int n, const double *weights, reduction *r) {
    const int d = (int)w->n_features;
    double *const columns = r->reflections;
    r->rank = n < d ? n : d;
    for (int i = 0; i < d; i++) {
        r->scale[i] = sqrt(weights[i] / w->noise[i]);
        for (int k = 0; k < n; k++) columns[(int64_t)k * d + i] = r->scale[i] * w->loadings[(int64_t)i * n + k];
    }
    clear(n * n, r->triangle);
    for (int j = 0; j < r->rank; j++) {
        double *const reflection = columns + (int64_t)j * d + j;
        const int left = d - j;
        const double length = dot(left, reflection, reflection);
        r->factors[j] = 0.0;
        if (length >= SHORTEST) {
            const double norm = sqrt(length);
            const double alpha = reflection[0] > 0.0 ? -norm : norm, first = reflection[0] - alpha;
            r->factors[j] = -1.0 / (alpha * first);
            reflection[0] = first;
            r->triangle[j * n + j] = alpha;
            for (int c = j + 1; c < n; c++) {
                double *const other = columns + (int64_t)c * d + j;
                add(left, -r->factors[j] * dot(left, reflection, other), reflection, other);
            }
        }
        for (int c = j + 1; c < n; c++) r->triangle[j * n + c] = columns[(int64_t)c * d + j];
    }
}

/* Computes the reduced observations y of a row; `centred` is scratch memory for D numbers. */
ALWAYS void reduce_values(const rows_work *w, const double *values, const reduction *r, double *centred, double *y) {
    const int d = (int)w->n_features;
    for (int i = 0; i < d; i++) centred[i] = r->scale[i] > 0.0 ? r->scale[i] * (values[i] - w->offset[i]) : 0.0;
    for (int j = 0; j < r->rank; j++) {
        const double *const reflection = r->reflections + (int64_t)j * d + j;
        add(d - j, -r->factors[j] * dot(d - j, reflection, centred + j), reflection, centred + j);
        y[j] = centred[j];
    }
}

/* Scratch memory of the filter. */
typedef struct {
    double *predicted, *top, *bottom, *sums, *y, *missed, *moved, *shift, *before;
    double *firsts, *factors;
    double *centred;
    reduction reduced;
} filter_room;

static int64_t rows_scratch(int64_t n, int64_t d) { return 10 * n * (n + 1) + 12 * n + 4 + (n + 2) * (2 * d + 1); }

ALWAYS double *part(double **next, int64_t size) {
    double *const taken = *next;
    *next += size;
    return taken;
}

ALWAYS filter_room make_room(int n, int d, double *next) {
    filter_room f;
    f.predicted = part(&next, n * n);
    f.top = part(&next, 2 * n * (n + 1));
    f.bottom = part(&next, 2 * n * (n + 1));
    f.before = part(&next, n * n);
    f.firsts = part(&next, n);
    f.factors = part(&next, n);
    f.sums = part(&next, 2 * (2 * n + 1));
    f.y = part(&next, n);
    f.missed = part(&next, n);
    f.moved = part(&next, n);
    f.shift = part(&next, n);
    f.centred = part(&next, d);
    f.reduced.scale = part(&next, d);
    f.reduced.reflections = part(&next, (int64_t)n * d);
    f.reduced.factors = part(&next, n);
    f.reduced.triangle = part(&next, n * n);
    f.reduced.rank = 0;
    return f;
}

/* Prediction over a gap: `predicted` becomes N'. If `gain` is not NULL, G' and the root of Cov(z | z') are stored. */
ALWAYS void predict(const rows_work *w, int n, int32_t gap, const double *root, filter_room *f, double *gain, double *conditional) {
    const double *const a = w->transition + (int64_t)gap * n * n, *const e = w->innovation + (int64_t)gap * n * n;
    const int width = gain ? 2 * n : n;
    for (int i = 0; i < n; i++) {
        double *const above = f->top + (int64_t)i * width, *const below = f->bottom + (int64_t)i * width;
        copy(n, e + i * n, above);
        move(n, w->bandwidth, a, root + i * n, below);
        if (gain) {
            clear(n, above + n);
            copy(n, root + i * n, below + n);
        }
    }
    triangularise(n, n, width, f->top, f->bottom, f->sums, f->sums + 2 * n + 1, f->firsts, f->factors);
    for (int i = 0; i < n; i++) copy(n, f->top + (int64_t)i * width, f->predicted + i * n);
    if (!gain) return;
    for (int j = n - 1; j >= 0; j--) { /* G' = N'^-1 M */
        double *const row = gain + j * n;
        copy(n, f->top + (int64_t)j * width + n, row);
        for (int l = j + 1; l < n; l++) add(n, -f->predicted[j * n + l], gain + l * n, row);
        const double pivot = f->predicted[j * n + j], reciprocal = pivot != 0.0 ? 1.0 / pivot : 0.0;
        for (int c = 0; c < n; c++) row[c] *= reciprocal;
    }
    for (int i = 0; i < n; i++) copy(n, f->bottom + (int64_t)i * width + n, conditional + i * n);
}

/* B^-1 x in place, for the triangle at `top`. */
ALWAYS void solve_upper(int n, int width, const double *top, double *x) {
    for (int j = n - 1; j >= 0; j--) {
        for (int l = j + 1; l < n; l++) x[j] -= top[(int64_t)j * width + l] * x[l];
        x[j] /= top[(int64_t)j * width + j];
    }
}

/* Updates the predicted mean and root with a row; returns log|B| + |s|^2. */
ALWAYS double update(int n, filter_room *f, const double *triangle, int rank, double *mean, double *root, double *log_det) {
    const int width = n + 1;
    for (int i = 0; i < n; i++) {
        double *const above = f->top + (int64_t)i * width;
        clear(width, above);
        above[i] = 1.0;
    }
    for (int i = 0; i < rank; i++) {
        double *const below = f->bottom + (int64_t)i * width;
        for (int j = 0; j < n; j++) { /* both are upper triangles */
            const int from = i > j ? i : j;
            below[j] = dot(n - from, f->predicted + j * n + from, triangle + i * n + from);
        }
        below[n] = f->y[i] - dot(n, triangle + i * n, mean);
    }
    triangularise(n, rank, width, f->top, f->bottom, f->sums, f->sums + 2 * n + 1, f->firsts, f->factors);
    *log_det = 0.0;
    for (int j = 0; j < n; j++) { /* N = B^-T N' */
        double *const row = root + j * n;
        copy(n, f->predicted + j * n, row);
        for (int l = 0; l < j; l++) add(n, -f->top[(int64_t)l * width + j], root + l * n, row);
        const double pivot = f->top[(int64_t)j * width + j], reciprocal = 1.0 / pivot;
        for (int c = 0; c < n; c++) row[c] *= reciprocal;
        *log_det += 2.0 * log(fabs(pivot));
        f->shift[j] = f->top[(int64_t)j * width + n];
    }
    add_times_rows(n, n, f->shift, root, mean);
    solve_upper(n, width, f->top, f->shift);
    return *log_det + dot(n, f->shift, f->shift);
}

/* Updates only the mean, with the matrices of the last `update`; returns |s|^2. */
ALWAYS double update_mean(int n, filter_room *f, const double *triangle, int rank, double *mean, const double *root) {
    const int width = n + 1;
    for (int i = 0; i < rank; i++) f->missed[i] = f->y[i] - dot(n, triangle + i * n, mean);
    clear(n, f->shift);
    reflect(n, rank, width, f->bottom, f->firsts, f->factors, f->shift, f->missed);
    add_times_rows(n, n, f->shift, root, mean);
    solve_upper(n, width, f->top, f->shift);
    return dot(n, f->shift, f->shift);
}

/* Whether a root is equal to that of the previous row, up to rounding errors. */
ALWAYS int unchanged(int n, const double *root, const double *before) {
    for (int c = 0; c < n; c++) {
        double power = 0.0, change = 0.0;
        for (int i = 0; i < n; i++) {
            power += root[i * n + c] * root[i * n + c];
            change = fmax(change, fabs(root[i * n + c] - before[i * n + c]));
        }
        if (!(change <= UNCHANGED * sqrt(power))) return 0;
    }
    return 1;
}

ALWAYS int64_t filter_rows(const rows_work *w, const int n, double *mean, double *root, double *scratch) {
    const int d = (int)w->n_features;
    filter_room f = make_room(n, d, scratch);
    int64_t slots = 0;
    int steady = 0, copied = 0; /* whether the root equals that of the previous row, and whether it is reused */
    double log_det = 0.0;
    for (int64_t t = 0; t < w->n_rows; t++) {
        const double *const weights = w->weights + t * d;
        const int32_t gap = w->gap_index[t];
        const int same = t > 0 && !memcmp(weights, weights - d, d * sizeof(double));
        const int alike = same && gap == w->gap_index[t - 1];
        move(n, w->bandwidth, w->transition + (int64_t)gap * n * n, mean, f.moved);
        copy(n, f.moved, mean);
        if (!same) reduce_columns(w, n, weights, &f.reduced);
        reduce_values(w, w->values + t * d, &f.reduced, f.centred, f.y);
        const int rank = f.reduced.rank;
        copied = steady && alike;
        if (copied) {
            if (w->slot) w->slot[t - 1] = (int32_t)(slots - 1);
            w->terms[t] = log_det + update_mean(n, &f, f.reduced.triangle, rank, mean, root);
        } else {
            double *const gain = t > 0 && w->slot ? w->gain + slots * n * n : 0;
            predict(w, n, gap, root, &f, gain, gain ? w->root + slots * n * n : 0);
            if (gain) w->slot[t - 1] = (int32_t)slots++;
            copy(n * n, root, f.before);
            w->terms[t] = update(n, &f, f.reduced.triangle, rank, mean, root, &log_det);
            steady = alike && unchanged(n, root, f.before);
        }
        copy(n, mean, w->filtered_means + t * n);
        if (!w->filtered_covariances) continue;
        double *const covariance = w->filtered_covariances + t * n * n;
        if (copied)
            copy(n * n, covariance - n * n, covariance);
        else
            square(n, root, covariance);
    }
    if (w->slot) {
        predict(w, n, w->gap_index[w->n_rows], root, &f, w->gain + slots * n * n, w->root + slots * n * n);
        w->slot[w->n_rows - 1] = (int32_t)slots++;
    }
    return slots;
}

/* Writes the smoothed moments of a row: in full, or as needed for sums over rows (see kernels.h). */
ALWAYS void store_moments(const rows_work *w, int n, int64_t t, int64_t full, const double *mean, const double *covariance) {
    copy(n, mean, w->means + t * n);
    if (full) {
        copy(n * n, covariance, w->covariances + t * n * n);
        return;
    }
    double *lower = w->covariances + t * n * (n + 1), *products = lower + n * (n + 1) / 2;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            *lower++ = covariance[i * n + j];
            *products++ = mean[i] * mean[j];
        }
}

ALWAYS void store_lag(const rows_work *w, int n, int64_t t, int64_t full, int64_t n_single, int64_t n_triples, const double *crossed) {
    if (full) {
        copy(n * n, crossed, w->lag_one + t * n * n);
        return;
    }
    const int triples = n - 3 * (int)n_triples;
    double *to = w->lag_one + t * (2 * n - n_single + 3 * n_triples);
    for (int i = 0; i < n; i++) *to++ = crossed[i * n + i];
    for (int first = (int)n_single, size; first < n; first += size) {
        size = first < triples ? 2 : 3;
        for (int i = first; i < first + size; i++)
            for (int j = first; j < first + size; j++)
                if (j != i) *to++ = crossed[i * n + j];
    }
}

ALWAYS void smooth_rows(const rows_work *w, const int n, int64_t full, int64_t n_single, int64_t n_triples, double *mean, double *covariance, double *scratch) {
    double *crossed = part(&scratch, n * n), *next = part(&scratch, n * n), *missed = part(&scratch, n);
    int steady = 0;
    for (int64_t t = w->n_rows - 1; t >= 0; t--) {
        const int32_t slot = w->slot[t];
        const double *const gain = w->gain + (int64_t)slot * n * n, *const root = w->root + (int64_t)slot * n * n;
        const double *const filtered = w->filtered_means + t * n;
        move(n, w->bandwidth, w->transition + (int64_t)w->gap_index[t + 1] * n * n, filtered, missed);
        for (int i = 0; i < n; i++) missed[i] = mean[i] - missed[i];
        copy(n, filtered, mean);
        add_times_rows(n, n, missed, gain, mean);
        const int alike = t + 1 < w->n_rows && slot == w->slot[t + 1];
        if (!(steady && alike)) {
            clear(n * n, crossed);
            for (int i = 0; i < n; i++) add_times_rows(n, n, covariance + i * n, gain, crossed + i * n);
            square(n, root, next);
            for (int i = 0; i < n; i++)
                for (int a = 0; a < n; a++) add(a + 1, gain[i * n + a], crossed + i * n, next + a * n);
            for (int i = 0; i < n; i++)
                for (int j = 0; j < i; j++) next[j * n + i] = next[i * n + j];
            double change = 0.0;
            for (int i = 0; i < n; i++) {
                const double variance = next[i * n + i];
                change = fmax(change, fabs(covariance[i * n + i] - variance) / variance);
            }
            steady = alike && change <= UNCHANGED;
            copy(n * n, next, covariance);
        }
        store_lag(w, n, t, full, n_single, n_triples, crossed);
        store_moments(w, n, t, full, mean, covariance);
    }
}

ALWAYS void draw_rows(const rows_work *w, const int n, int64_t n_draws, const double *normals, double *after, double *draws, double *scratch) {
    double *moved = part(&scratch, n), *missed = part(&scratch, n), *top = part(&scratch, n * n), *bottom = part(&scratch, n * n);
    double *sums = part(&scratch, 4 * n);
    for (int64_t t = w->n_rows - 1; t >= 0; t--) {
        const int64_t slot = w->slot[t];
        /* The root as an upper triangle with a positive diagonal, so that all algorithms map the same normal variables to the
         * same draws. */
        clear(n * n, top);
        copy(n * n, w->root + slot * n * n, bottom);
        triangularise(n, n, n, top, bottom, sums, sums + n, sums + 2 * n, sums + 3 * n);
        for (int i = 0; i < n; i++)
            if (top[i * n + i] < 0.0)
                for (int j = i; j < n; j++) top[i * n + j] = -top[i * n + j];
        const double *const filtered = w->filtered_means + t * n;
        move(n, w->bandwidth, w->transition + (int64_t)w->gap_index[t + 1] * n * n, filtered, moved);
        for (int64_t m = 0; m < n_draws; m++) {
            double *const drawn = draws + (t * n_draws + m) * n, *const state = after + m * n;
            for (int i = 0; i < n; i++) missed[i] = state[i] - moved[i];
            copy(n, filtered, drawn);
            add_times_rows(n, n, missed, w->gain + slot * n * n, drawn);
            add_times_rows(n, n, normals + (t * n_draws + m) * n, top, drawn);
            copy(n, drawn, state);
        }
    }
}

/* Scratch memory of the filter under Student-t noise. The state is expressed in coordinates in which its predicted covariance
 * is the identity; V are the loadings in these coordinates. */
typedef struct {
    double *loadings, *error, *weights, *power; /* V (D, K); residual, weight and squared residual of each value (D,) */
    double *precision, *inverse;                /* lower triangle F with F F' = I + V' diag(w / r) V, and F^-1, both (K, K) */
    double *mean, *half;                        /* posterior mean, and information vector (K,) */
} student_room;

/* Computes the posterior of the state given the weights of a row, and the expected squared residuals in units of the noise
 * variances; returns the log determinant of the posterior precision. */

ALWAYS double solve_student(const rows_work *w, int n, const double *observed, const double *weights, student_room *s) {
    const int d = (int)w->n_features;
    clear(n * n, s->precision);
    clear(n, s->half);
    for (int k = 0; k < n; k++) s->precision[k * n + k] = 1.0;
    for (int i = 0; i < d; i++) {
        if (!(observed[i] > 0.0)) continue;
        const double scale = weights[i] / w->noise[i], *const v = s->loadings + (int64_t)i * n;
        for (int k = 0; k < n; k++) add(k + 1, scale * v[k], v, s->precision + k * n);
        add(n, scale * s->error[i], v, s->half);
    }
    double log_det = 0.0;
    for (int j = 0; j < n; j++) {
        double *const row = s->precision + j * n;
        for (int k = 0; k < j; k++) row[k] = (row[k] - dot(k, row, s->precision + k * n)) / s->precision[k * n + k];
        row[j] = sqrt(row[j] - dot(j, row, row));
        log_det += 2.0 * log(row[j]);
    }
    clear(n * n, s->inverse);
    for (int j = 0; j < n; j++) {
        double *const row = s->inverse + j * n;
        for (int k = 0; k < j; k++) add(k + 1, -s->precision[j * n + k], s->inverse + k * n, row);
        row[j] = 1.0;
        for (int k = 0; k <= j; k++) row[k] /= s->precision[j * n + j];
    }
    clear(n, s->mean);
    for (int j = 0; j < n; j++) add(j + 1, dot(j + 1, s->inverse + j * n, s->half), s->inverse + j * n, s->mean);
    for (int i = 0; i < d; i++) {
        if (!(observed[i] > 0.0)) continue;
        const double *const v = s->loadings + (int64_t)i * n, error = s->error[i] - dot(n, v, s->mean);
        double spread = 0.0;
        for (int j = 0; j < n; j++) {
            const double part = dot(j + 1, s->inverse + j * n, v);
            spread += part * part;
        }
        s->power[i] = (error * error + spread) / w->noise[i];
    }
    return log_det;
}

/* Sets weights to (nu + n) / (nu + discrepancy) for the n values that share a weight: a single value, or those of the row.
 * Returns the largest relative change of a weight. */
ALWAYS double reweigh(int d, const double *observed, const double *power, double degrees, int by_row, double *weights) {
    double count = 0.0, total = 0.0, change = 0.0;
    for (int i = 0; i < d; i++) {
        if (!(observed[i] > 0.0)) continue;
        count += 1.0;
        total += power[i];
    }
    for (int i = 0; i < d; i++) {
        if (!(observed[i] > 0.0)) continue;
        const double better = (degrees + (by_row ? count : 1.0)) / (degrees + (by_row ? total : power[i]));
        change = fmax(change, fabs(better / weights[i] - 1.0));
        weights[i] = better;
    }
    return change;
}

/* Log density of `count` values that share a weight, with the sum `power` of squared residuals in units of the noise
 * variances, without the term of the noise variances. */
ALWAYS double student_term(double degrees, double count, double power) {
    const double ratio = lgamma(0.5 * (degrees + count)) - lgamma(0.5 * degrees) - 0.5 * count * log(0.5 * degrees);
    return ratio - 0.5 * (degrees + count) * log1p(power / degrees);
}

/* Maximum number of fixed-point iterations for a row, and the relative change of weights at convergence. */
enum { MAX_ITERATIONS = 100 };
static const double WEIGHT_TOLERANCE = 1e-10;

/* Causal filter under Student-t noise. The filtered state of the previous row is approximated by a Gaussian; weights and state
 * of each row are then computed by fixed-point iteration (Agamennoni et al. 2012). Terms are lower bounds of the log densities
 * of rows. */
ALWAYS void student_rows(const rows_work *w, const int n, double degrees, int by_row, double *mean, double *root, double *scratch) {
    const int d = (int)w->n_features;
    filter_room f = make_room(n, d, scratch);
    scratch += rows_scratch(n, d);
    student_room s;
    s.loadings = part(&scratch, (int64_t)d * n);
    s.error = part(&scratch, d);
    s.weights = part(&scratch, d);
    s.power = part(&scratch, d);
    s.precision = part(&scratch, n * n);
    s.inverse = part(&scratch, n * n);
    s.mean = part(&scratch, n);
    s.half = part(&scratch, n);
    for (int64_t t = 0; t < w->n_rows; t++) {
        const double *const observed = w->weights + t * d, *const values = w->values + t * d;
        move(n, w->bandwidth, w->transition + (int64_t)w->gap_index[t] * n * n, mean, f.moved);
        copy(n, f.moved, mean);
        predict(w, n, w->gap_index[t], root, &f, 0, 0);
        double count = 0.0, norm = 0.0;
        for (int i = 0; i < d; i++) {
            const double *const c = w->loadings + (int64_t)i * n;
            double *const v = s.loadings + (int64_t)i * n;
            times(n, n, f.predicted, c, v);
            if (!(observed[i] > 0.0)) continue;
            s.error[i] = values[i] - w->offset[i] - dot(n, c, mean);
            s.power[i] = s.error[i] * s.error[i] / (w->noise[i] + dot(n, v, v));
            s.weights[i] = 1.0;
            count += 1.0;
            norm += log(TWO_PI * w->noise[i]);
        }
        reweigh(d, observed, s.power, degrees, by_row, s.weights);
        for (int iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
            solve_student(w, n, observed, s.weights, &s);
            if (reweigh(d, observed, s.power, degrees, by_row, s.weights) <= WEIGHT_TOLERANCE) break;
        }
        const double log_det = solve_student(w, n, observed, s.weights, &s);
        double total = 0.0, term = 0.0, bound = log_det - n + dot(n, s.mean, s.mean) + dot(n * n, s.inverse, s.inverse);
        for (int i = 0; i < d; i++) {
            if (!(observed[i] > 0.0)) continue;
            total += s.power[i];
            if (!by_row) term += student_term(degrees, 1.0, s.power[i]);
        }
        if (by_row && count > 0.0) term = student_term(degrees, count, total);
        w->terms[t] = term - 0.5 * norm - 0.5 * bound;
        add_times_rows(n, n, s.mean, f.predicted, mean);
        clear(n * n, root);
        for (int j = 0; j < n; j++) add_times_rows(j + 1, n, s.inverse + j * n, f.predicted, root + j * n);
        copy(n, mean, w->filtered_means + t * n);
        square(n, root, w->filtered_covariances + t * n * n);
    }
}

/* Prediction with the covariance itself: m <- A m, P <- A P A' + Q. */
ALWAYS void predict_covariance(const rows_work *w, int n, int32_t gap, double *mean, double *covariance, double *room) {
    const double *const a = w->transition + (int64_t)gap * n * n, *const e = w->innovation + (int64_t)gap * n * n;
    times(n, n, a, mean, room);
    copy(n, room, mean);
    for (int i = 0; i < n; i++) times(n, n, a, covariance + i * n, room + i * n); /* P A' */
    square(n, e, covariance);
    for (int i = 0; i < n; i++)
        for (int l = 0; l < n; l++) add(n, a[i * n + l], room + l * n, covariance + i * n);
}

/* Updates mean and covariance with the values of a row, one after the other (univariate treatment, Koopman & Durbin 2000).
 * For a value x with loadings c and noise variance r, f = c' P c + r, g = P c / f and v = x - mu - c' m. `values` receives g,
 * v and f of each value. */
ALWAYS void update_by_values(const rows_work *w, int n, int64_t t, double *mean, double *covariance, double *values, double *room) {
    const int d = (int)w->n_features;
    for (int i = 0; i < d; i++, values += n + 2) {
        if (!(w->weights[t * d + i] > 0.0)) continue;
        const double *const c = w->loadings + (int64_t)i * n;
        times(n, n, covariance, c, room);
        const double variance = dot(n, c, room) + w->noise[i], error = w->values[t * d + i] - w->offset[i] - dot(n, c, mean);
        for (int k = 0; k < n; k++) values[k] = room[k] / variance;
        values[n] = error;
        values[n + 1] = variance;
        add(n, error, values, mean);
        for (int k = 0; k < n; k++) add(n, -values[k], room, covariance + k * n);
    }
}

/* Leave-one-out scores e and precisions d of all values. The backward pass accumulates score s and information N of later
 * values about a state, as in the disturbance smoother (de Jong 1989): e = v / f - g' s, d = 1 / f + g' N g, s <- s + c e,
 * N <- N - c (N g)' - (N g) c' + d c c'. */
ALWAYS void leave_out(const rows_work *w, const int n, double *scores, double *precisions, double *states, double *scratch) {
    const int d = (int)w->n_features;
    double *mean = part(&scratch, n), *covariance = part(&scratch, n * n), *room = part(&scratch, n * n + n);
    double *values = part(&scratch, (int64_t)d * (n + 2)), *information = part(&scratch, n * n), *score = part(&scratch, n);
    const int size = n + n * n;
    clear(n, mean);
    clear(n * n, covariance);
    for (int k = 0; k < n; k++) covariance[k * n + k] = 1.0;
    for (int64_t t = 0; t < w->n_rows; t++) {
        predict_covariance(w, n, w->gap_index[t], mean, covariance, room);
        copy(n, mean, states + t * size);
        copy(n * n, covariance, states + t * size + n);
        update_by_values(w, n, t, mean, covariance, values, room);
    }
    clear(n, score);
    clear(n * n, information);
    for (int64_t t = w->n_rows - 1; t >= 0; t--) {
        const double *const a = w->transition + (int64_t)w->gap_index[t + 1] * n * n;
        clear(n, room); /* s <- A' s, N <- A' N A */
        add_times_rows(n, n, score, a, room);
        copy(n, room, score);
        clear(n * n, room);
        for (int i = 0; i < n; i++) add_times_rows(n, n, information + i * n, a, room + i * n);
        clear(n * n, information);
        for (int l = 0; l < n; l++)
            for (int i = 0; i < n; i++) add(n, a[l * n + i], room + l * n, information + i * n);
        copy(n, states + t * size, mean);
        copy(n * n, states + t * size + n, covariance);
        update_by_values(w, n, t, mean, covariance, values, room);
        for (int i = d - 1; i >= 0; i--) {
            const int64_t at = t * d + i;
            scores[at] = precisions[at] = 0.0;
            if (!(w->weights[at] > 0.0)) continue;
            const double *const c = w->loadings + (int64_t)i * n, *const g = values + (int64_t)i * (n + 2);
            times(n, n, information, g, room);
            scores[at] = g[n] / g[n + 1] - dot(n, g, score);
            precisions[at] = 1.0 / g[n + 1] + dot(n, g, room);
            add(n, scores[at], c, score);
            add(n, -0.5 * precisions[at], c, room);
            for (int k = 0; k < n; k++) {
                add(n, -c[k], room, information + k * n);
                add(n, -room[k], c, information + k * n);
            }
        }
    }
}

/* Calls a function with a constant number of states, for which the compiler unrolls loops, or with any other number. */
#define FOR_STATES(n, CALL) \
    switch (n) { \
    case 1: return CALL(1); \
    case 2: return CALL(2); \
    case 3: return CALL(3); \
    case 4: return CALL(4); \
    case 5: return CALL(5); \
    case 6: return CALL(6); \
    case 8: return CALL(8); \
    default: return CALL((int)(n)); \
    }

static int64_t scratch_of_all(int64_t n, int64_t d) { return rows_scratch(n, d) + (n + 3) * d + 2 * n * (n + 1); }

static int64_t filter(const rows_work *w, double *mean, double *root, double *scratch) {
#define FILTER(n) filter_rows(w, n, mean, root, scratch)
    FOR_STATES(w->n_states, FILTER)
}

static void smooth(const rows_work *w, int64_t full, int64_t n_single, int64_t n_triples, double *mean, double *covariance, double *scratch) {
#define SMOOTH(n) smooth_rows(w, n, full, n_single, n_triples, mean, covariance, scratch)
    FOR_STATES(w->n_states, SMOOTH)
}

static void draw(const rows_work *w, int64_t n_draws, const double *normals, double *after, double *draws, double *scratch) {
    draw_rows(w, (int)w->n_states, n_draws, normals, after, draws, scratch);
}

static void filter_student(const rows_work *w, double degrees, int64_t by_row, double *mean, double *root, double *scratch) {
    student_rows(w, (int)w->n_states, degrees, (int)by_row, mean, root, scratch);
}

static void leave_one_out(const rows_work *w, double *scores, double *precisions, double *states, double *scratch) {
    leave_out(w, (int)w->n_states, scores, precisions, states, scratch);
}

const rows_kernels NAMED(rows_kernels, LEVEL) = {scratch_of_all, filter, smooth, draw, leave_one_out, filter_student};
