/* Square-root Kalman filter and smoother, row by row, by orthogonal transformations only.
 *
 * A covariance P is represented by a root N with P = N' N. The observations of a row are reduced to at most K numbers
 * y = U z + unit noise, with U from a QR factorisation of R^-1/2 C. Prediction and update triangularise a stack of matrices
 * by Householder reflections (Kailath, Sayed & Hassibi 2000, chapter 12).
 *
 * Prediction of z_t+1 = A z_t + e with Cov e = Q = E' E, from the filtered root N to the predicted root M:
 *
 *     [ E     0 ]        [ M   H ]      M' M = A P A' + Q,   M' H = A P
 *     [ N A'  N ]   ->   [ 0   S ]      G' = M^-1 H: transposed smoother gain;   S' S = P - G A P = Cov(z_t | z_t+1)
 *
 * Update of the predicted mean m and root M with y, where V = U M':
 *
 *     [ I    0         ]        [ B  h ]      B' B = I + V' V
 *     [ V    y - U m   ]   ->   [ 0  . ]      N = B'^-1 M,   m <- m + N' h,   s = B^-1 h
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
#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* M_PI is not in the C standard: headers of Windows, and of musl without extensions, do not have it. */
#define TWO_PI 6.283185307179586476925286766559
/* Largest relative change from row to row that counts as a rounding error: of a root, relative to the standard deviation of
 * each state, or of a smoothed variance. */
static const double MAX_ROUNDING_CHANGE = 1e-14;
/* Minimum squared length of a vector that is reflected. A reflection is scaled by the reciprocal of the squared length, which
 * overflows for smaller lengths. In a QR factorisation, linearly dependent columns have such small residuals. */
static const double MIN_SQUARED_LENGTH = DBL_MIN;

ALWAYS_INLINE void copy(int64_t count, const double *from, double *to) { memcpy(to, from, count * sizeof(double)); }
ALWAYS_INLINE void clear(int64_t count, double *to) { memset(to, 0, count * sizeof(double)); }

ALWAYS_INLINE double dot(int n, const double *a, const double *b) {
    double sum = 0.0;
    for (int i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

ALWAYS_INLINE void add(int n, double factor, const double *restrict from, double *restrict to) {
    for (int i = 0; i < n; i++) to[i] += factor * from[i];
}

/* out = M x. */
ALWAYS_INLINE void times(int rows, int n, const double *m, const double *x, double *out) {
    for (int i = 0; i < rows; i++) out[i] = dot(n, m + (int64_t)i * n, x);
}

/* out = A x, for a band matrix with `bandwidth` diagonals on each side of the main diagonal. */
ALWAYS_INLINE void band_times(int n, int bandwidth, const double *a, const double *x, double *out) {
    for (int i = 0; i < n; i++) {
        const int from = i > bandwidth ? i - bandwidth : 0, to = i + bandwidth < n ? i + bandwidth + 1 : n;
        out[i] = dot(to - from, a + i * n + from, x + from);
    }
}

/* out += x' M. */
ALWAYS_INLINE void add_times_rows(int rows, int n, const double *x, const double *m, double *out) {
    for (int i = 0; i < rows; i++) add(n, x[i], m + (int64_t)i * n, out);
}

/* out = N' N. */
ALWAYS_INLINE void covariance_of_root(int n, const double *root, double *out) {
    clear(n * n, out);
    for (int i = 0; i < n; i++)
        for (int a = 0; a < n; a++) add(n, root[i * n + a], root + i * n, out + a * n);
}

/* Transforms a stack of an upper triangle `top` (n, width) and further rows `bottom` (n_below, width) to an upper triangle by
 * Householder reflections. The triangles are the first n columns; the other columns are transformed with them. One pass over
 * `bottom` applies a reflection and computes the dot products for the next one; `products` and `next_products` are scratch
 * memory for `width` numbers each. On return, the first n columns of `bottom`, `firsts` (n,) and `factors` (n,) define the
 * reflections: see `reflect`. */
ALWAYS_INLINE void triangularise(int n, int n_below, int width, double *restrict top, double *restrict bottom, double *restrict products, double *restrict next_products, double *restrict firsts, double *restrict factors) {
    double squared_norm = 0.0;
    clear(width, products);
    for (int i = 0; i < n_below; i++) {
        const double *const row = bottom + (int64_t)i * width;
        squared_norm += row[0] * row[0];
        add(width, row[0], row, products);
    }
    for (int j = 0; j < n; j++) {
        double *const pivots = top + (int64_t)j * width;
        const double pivot = pivots[j], length = pivot * pivot + squared_norm, norm = length >= MIN_SQUARED_LENGTH ? sqrt(length) : 0.0;
        const double alpha = pivot > 0.0 ? -norm : norm, first = pivot - alpha, beta = norm > 0.0 ? -1.0 / (alpha * first) : 0.0;
        const int remaining = width - j - 1;
        pivots[j] = alpha;
        firsts[j] = first;
        factors[j] = beta;
        for (int c = j + 1; c < width; c++) {
            products[c] = beta * (first * pivots[c] + products[c]);
            pivots[c] -= first * products[c];
        }
        squared_norm = 0.0;
        clear(remaining, next_products + j + 1);
        for (int i = 0; i < n_below; i++) {
            double *const row = bottom + (int64_t)i * width;
            add(remaining, -row[j], products + j + 1, row + j + 1);
            if (j + 1 == n) continue;
            squared_norm += row[j + 1] * row[j + 1];
            add(remaining, row[j + 1], row + j + 1, next_products + j + 1);
        }
        double *const swapped = products;
        products = next_products;
        next_products = swapped;
    }
}

/* Applies the reflections of `triangularise` to a column with entries `upper` (n,) in the rows of `top` and entries `lower`
 * (n_below,) in the rows of `bottom`. */
ALWAYS_INLINE void reflect(int n, int n_below, int width, const double *bottom, const double *firsts, const double *factors, double *upper, double *lower) {
    for (int j = 0; j < n; j++) {
        double sum = firsts[j] * upper[j];
        for (int i = 0; i < n_below; i++) sum += bottom[(int64_t)i * width + j] * lower[i];
        sum *= factors[j];
        upper[j] -= firsts[j] * sum;
        for (int i = 0; i < n_below; i++) lower[i] -= bottom[(int64_t)i * width + j] * sum;
    }
}

/* Reduction of the observations of a row to at most K numbers with unit noise: Householder reflections of the QR factorisation
 * of R^-1/2 C. Rows with the same weights share it. */
typedef struct {
    int rank;
    double *scale, *reflections, *factors, *triangle; /* (D,), (K, D), (K,) and U (K, K), of which `rank` rows are used */
} reduction;

ALWAYS_INLINE void reduce_columns(const rows_work *w, int n, const double *weights, reduction *r) {
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
        if (length >= MIN_SQUARED_LENGTH) {
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

/* Computes the reduced observations y (rank,) of a row; `centred` is scratch memory for D numbers. */
ALWAYS_INLINE void reduce_values(const rows_work *w, const double *values, const reduction *r, double *centred, double *y) {
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
    double *predicted_mean, *predicted_root, *previous_root;
    double *y, *innovation, *whitened;                   /* y; y - U m; h, and then s */
    double *top, *bottom, *products, *firsts, *factors; /* see `triangularise` */
    double *centred;                                     /* see `reduce_values` */
    reduction reduced;
} filter_scratch;

static int64_t filter_scratch_size(int64_t n, int64_t d) { return 10 * n * (n + 1) + 12 * n + 4 + (n + 2) * (2 * d + 1); }

ALWAYS_INLINE double *allocate(double **next, int64_t size) {
    double *const allocated = *next;
    *next += size;
    return allocated;
}

ALWAYS_INLINE filter_scratch make_filter_scratch(int n, int d, double *next) {
    filter_scratch f;
    f.predicted_root = allocate(&next, n * n);
    f.top = allocate(&next, 2 * n * (n + 1));
    f.bottom = allocate(&next, 2 * n * (n + 1));
    f.previous_root = allocate(&next, n * n);
    f.firsts = allocate(&next, n);
    f.factors = allocate(&next, n);
    f.products = allocate(&next, 2 * (2 * n + 1));
    f.y = allocate(&next, n);
    f.innovation = allocate(&next, n);
    f.predicted_mean = allocate(&next, n);
    f.whitened = allocate(&next, n);
    f.centred = allocate(&next, d);
    f.reduced.scale = allocate(&next, d);
    f.reduced.reflections = allocate(&next, (int64_t)n * d);
    f.reduced.factors = allocate(&next, n);
    f.reduced.triangle = allocate(&next, n * n);
    f.reduced.rank = 0;
    return f;
}

/* Prediction over a gap: computes f->predicted_root. If `gain` is not NULL, it receives G', and `conditional` receives S. */
ALWAYS_INLINE void predict(const rows_work *w, int n, int32_t gap, const double *root, filter_scratch *f, double *gain, double *conditional) {
    const double *const a = w->transition + (int64_t)gap * n * n, *const e = w->innovation + (int64_t)gap * n * n;
    const int width = gain ? 2 * n : n;
    for (int i = 0; i < n; i++) {
        double *const above = f->top + (int64_t)i * width, *const below = f->bottom + (int64_t)i * width;
        copy(n, e + i * n, above);
        band_times(n, w->bandwidth, a, root + i * n, below);
        if (gain) {
            clear(n, above + n);
            copy(n, root + i * n, below + n);
        }
    }
    triangularise(n, n, width, f->top, f->bottom, f->products, f->products + 2 * n + 1, f->firsts, f->factors);
    for (int i = 0; i < n; i++) copy(n, f->top + (int64_t)i * width, f->predicted_root + i * n);
    if (!gain) return;
    for (int j = n - 1; j >= 0; j--) { /* G' = M^-1 H */
        double *const row = gain + j * n;
        copy(n, f->top + (int64_t)j * width + n, row);
        for (int l = j + 1; l < n; l++) add(n, -f->predicted_root[j * n + l], gain + l * n, row);
        const double pivot = f->predicted_root[j * n + j], reciprocal = pivot != 0.0 ? 1.0 / pivot : 0.0;
        for (int c = 0; c < n; c++) row[c] *= reciprocal;
    }
    for (int i = 0; i < n; i++) copy(n, f->bottom + (int64_t)i * width + n, conditional + i * n);
}

/* B^-1 x in place, for the upper triangle B in the first n columns of `top` (n, width). */
ALWAYS_INLINE void solve_upper(int n, int width, const double *top, double *x) {
    for (int j = n - 1; j >= 0; j--) {
        for (int l = j + 1; l < n; l++) x[j] -= top[(int64_t)j * width + l] * x[l];
        x[j] /= top[(int64_t)j * width + j];
    }
}

/* Updates the predicted mean and root with f->y: `mean` and `root` receive the filtered ones, `log_det` receives log|B' B|.
 * Returns log|B' B| + |s|^2. */
ALWAYS_INLINE double update(int n, filter_scratch *f, const double *triangle, int rank, double *mean, double *root, double *log_det) {
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
            below[j] = dot(n - from, f->predicted_root + j * n + from, triangle + i * n + from);
        }
        below[n] = f->y[i] - dot(n, triangle + i * n, mean);
    }
    triangularise(n, rank, width, f->top, f->bottom, f->products, f->products + 2 * n + 1, f->firsts, f->factors);
    *log_det = 0.0;
    for (int j = 0; j < n; j++) { /* N = B'^-1 M */
        double *const row = root + j * n;
        copy(n, f->predicted_root + j * n, row);
        for (int l = 0; l < j; l++) add(n, -f->top[(int64_t)l * width + j], root + l * n, row);
        const double pivot = f->top[(int64_t)j * width + j], reciprocal = 1.0 / pivot;
        for (int c = 0; c < n; c++) row[c] *= reciprocal;
        *log_det += 2.0 * log(fabs(pivot));
        f->whitened[j] = f->top[(int64_t)j * width + n];
    }
    add_times_rows(n, n, f->whitened, root, mean);
    solve_upper(n, width, f->top, f->whitened);
    return *log_det + dot(n, f->whitened, f->whitened);
}

/* Updates only the mean, in a steady state, with the matrices of the last `update`; returns |s|^2. */
ALWAYS_INLINE double update_mean(int n, filter_scratch *f, const double *triangle, int rank, double *mean, const double *root) {
    const int width = n + 1;
    for (int i = 0; i < rank; i++) f->innovation[i] = f->y[i] - dot(n, triangle + i * n, mean);
    clear(n, f->whitened);
    reflect(n, rank, width, f->bottom, f->firsts, f->factors, f->whitened, f->innovation);
    add_times_rows(n, n, f->whitened, root, mean);
    solve_upper(n, width, f->top, f->whitened);
    return dot(n, f->whitened, f->whitened);
}

/* Returns whether a root is equal to that of the previous row, up to rounding errors. */
ALWAYS_INLINE int unchanged(int n, const double *root, const double *previous_root) {
    for (int c = 0; c < n; c++) {
        double squared_norm = 0.0, change = 0.0;
        for (int i = 0; i < n; i++) {
            squared_norm += root[i * n + c] * root[i * n + c];
            change = fmax(change, fabs(root[i * n + c] - previous_root[i * n + c]));
        }
        if (!(change <= MAX_ROUNDING_CHANGE * sqrt(squared_norm))) return 0;
    }
    return 1;
}

ALWAYS_INLINE int64_t filter_rows(const rows_work *w, const int n, double *mean, double *root, double *scratch) {
    const int d = (int)w->n_features;
    filter_scratch f = make_filter_scratch(n, d, scratch);
    int64_t slots = 0;
    int steady = 0, reused = 0; /* whether the last two roots are equal, and whether the row reuses the last one */
    double log_det = 0.0;
    for (int64_t t = 0; t < w->n_rows; t++) {
        const double *const weights = w->weights + t * d;
        const int32_t gap = w->gap_index[t];
        const int same_weights = t > 0 && !memcmp(weights, weights - d, d * sizeof(double));
        const int same_step = same_weights && gap == w->gap_index[t - 1];
        band_times(n, w->bandwidth, w->transition + (int64_t)gap * n * n, mean, f.predicted_mean);
        copy(n, f.predicted_mean, mean);
        if (!same_weights) reduce_columns(w, n, weights, &f.reduced);
        reduce_values(w, w->values + t * d, &f.reduced, f.centred, f.y);
        const int rank = f.reduced.rank;
        reused = steady && same_step;
        if (reused) {
            if (w->slot) w->slot[t - 1] = (int32_t)(slots - 1);
            w->terms[t] = log_det + update_mean(n, &f, f.reduced.triangle, rank, mean, root);
        } else {
            double *const gain = t > 0 && w->slot ? w->gain + slots * n * n : 0;
            predict(w, n, gap, root, &f, gain, gain ? w->root + slots * n * n : 0);
            if (gain) w->slot[t - 1] = (int32_t)slots++;
            copy(n * n, root, f.previous_root);
            w->terms[t] = update(n, &f, f.reduced.triangle, rank, mean, root, &log_det);
            steady = same_step && unchanged(n, root, f.previous_root);
        }
        copy(n, mean, w->filtered_means + t * n);
        if (!w->filtered_covariances) continue;
        double *const covariance = w->filtered_covariances + t * n * n;
        if (reused)
            copy(n * n, covariance - n * n, covariance);
        else
            covariance_of_root(n, root, covariance);
    }
    if (w->slot) {
        predict(w, n, w->gap_index[w->n_rows], root, &f, w->gain + slots * n * n, w->root + slots * n * n);
        w->slot[w->n_rows - 1] = (int32_t)slots++;
    }
    return slots;
}

/* Writes the smoothed mean and covariance of a row, in full or packed (see kernels.h). */
ALWAYS_INLINE void store_moments(const rows_work *w, int n, int64_t t, int64_t full, const double *mean, const double *covariance) {
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

/* Writes the lag-one covariance of the next state with the state of row t, in full or packed. */
ALWAYS_INLINE void store_lag_one(const rows_work *w, int n, int64_t t, int64_t full, int64_t n_single, int64_t n_triples, const double *lag_one) {
    if (full) {
        copy(n * n, lag_one, w->lag_one + t * n * n);
        return;
    }
    const int first_triple = n - 3 * (int)n_triples;
    double *to = w->lag_one + t * (2 * n - n_single + 3 * n_triples);
    for (int i = 0; i < n; i++) *to++ = lag_one[i * n + i];
    for (int first = (int)n_single, size; first < n; first += size) {
        size = first < first_triple ? 2 : 3;
        for (int i = first; i < first + size; i++)
            for (int j = first; j < first + size; j++)
                if (j != i) *to++ = lag_one[i * n + j];
    }
}

ALWAYS_INLINE void smooth_rows(const rows_work *w, const int n, int64_t full, int64_t n_single, int64_t n_triples, double *mean, double *covariance, double *scratch) {
    double *lag_one = allocate(&scratch, n * n), *smoothed = allocate(&scratch, n * n), *prediction_error = allocate(&scratch, n);
    int steady = 0;
    for (int64_t t = w->n_rows - 1; t >= 0; t--) {
        const int32_t slot = w->slot[t];
        const double *const gain = w->gain + (int64_t)slot * n * n, *const root = w->root + (int64_t)slot * n * n;
        const double *const filtered = w->filtered_means + t * n;
        band_times(n, w->bandwidth, w->transition + (int64_t)w->gap_index[t + 1] * n * n, filtered, prediction_error); /* A m */
        for (int i = 0; i < n; i++) prediction_error[i] = mean[i] - prediction_error[i];
        copy(n, filtered, mean);
        add_times_rows(n, n, prediction_error, gain, mean);
        const int same_slot = t + 1 < w->n_rows && slot == w->slot[t + 1];
        if (!(steady && same_slot)) {
            clear(n * n, lag_one);
            for (int i = 0; i < n; i++) add_times_rows(n, n, covariance + i * n, gain, lag_one + i * n);
            covariance_of_root(n, root, smoothed);
            for (int i = 0; i < n; i++)
                for (int a = 0; a < n; a++) add(a + 1, gain[i * n + a], lag_one + i * n, smoothed + a * n);
            for (int i = 0; i < n; i++)
                for (int j = 0; j < i; j++) smoothed[j * n + i] = smoothed[i * n + j];
            double change = 0.0;
            for (int i = 0; i < n; i++) {
                const double variance = smoothed[i * n + i];
                change = fmax(change, fabs(covariance[i * n + i] - variance) / variance);
            }
            steady = same_slot && change <= MAX_ROUNDING_CHANGE;
            copy(n * n, smoothed, covariance);
        }
        store_lag_one(w, n, t, full, n_single, n_triples, lag_one);
        store_moments(w, n, t, full, mean, covariance);
    }
}

ALWAYS_INLINE void draw_rows(const rows_work *w, const int n, int64_t n_draws, const double *normals, double *after, double *draws, double *scratch) {
    double *predicted_mean = allocate(&scratch, n), *prediction_error = allocate(&scratch, n), *top = allocate(&scratch, n * n), *bottom = allocate(&scratch, n * n);
    double *products = allocate(&scratch, 4 * n);
    for (int64_t t = w->n_rows - 1; t >= 0; t--) {
        const int64_t slot = w->slot[t];
        /* The root as an upper triangle with a positive diagonal, so that all algorithms map the same normal variables to the
         * same draws. */
        clear(n * n, top);
        copy(n * n, w->root + slot * n * n, bottom);
        triangularise(n, n, n, top, bottom, products, products + n, products + 2 * n, products + 3 * n);
        for (int i = 0; i < n; i++)
            if (top[i * n + i] < 0.0)
                for (int j = i; j < n; j++) top[i * n + j] = -top[i * n + j];
        const double *const filtered = w->filtered_means + t * n;
        band_times(n, w->bandwidth, w->transition + (int64_t)w->gap_index[t + 1] * n * n, filtered, predicted_mean);
        for (int64_t m = 0; m < n_draws; m++) {
            double *const drawn = draws + (t * n_draws + m) * n, *const state = after + m * n;
            for (int i = 0; i < n; i++) prediction_error[i] = state[i] - predicted_mean[i];
            copy(n, filtered, drawn);
            add_times_rows(n, n, prediction_error, w->gain + slot * n * n, drawn);
            add_times_rows(n, n, normals + (t * n_draws + m) * n, top, drawn);
            copy(n, drawn, state);
        }
    }
}

/* Scratch memory of the filter under Student-t noise. The state is expressed in coordinates v with z = m + M' v, in which its
 * predicted distribution is standard normal; V = C M' are the loadings in these coordinates. */
typedef struct {
    double *loadings;                                /* V (D, K) */
    double *error, *weights, *squared_errors;        /* (D,): x - mu - C m, w, and expected squared residual / r of each value */
    double *precision, *inverse;                     /* lower triangle F with F F' = I + V' diag(w / r) V, and F^-1, both (K, K) */
    double *mean, *information;                      /* posterior mean of v, and V' diag(w / r) (x - mu - C m), both (K,) */
} student_scratch;

/* Computes the posterior of v given the weights of a row, and the expected squared residuals in units of the noise variances;
 * returns the log determinant of the posterior precision. `observed` (D,) is positive for observed values. */
ALWAYS_INLINE double solve_student(const rows_work *w, int n, const double *observed, const double *weights, student_scratch *s) {
    const int d = (int)w->n_features;
    clear(n * n, s->precision);
    clear(n, s->information);
    for (int k = 0; k < n; k++) s->precision[k * n + k] = 1.0;
    for (int i = 0; i < d; i++) {
        if (!(observed[i] > 0.0)) continue;
        const double scale = weights[i] / w->noise[i], *const v = s->loadings + (int64_t)i * n;
        for (int k = 0; k < n; k++) add(k + 1, scale * v[k], v, s->precision + k * n);
        add(n, scale * s->error[i], v, s->information);
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
    for (int j = 0; j < n; j++) add(j + 1, dot(j + 1, s->inverse + j * n, s->information), s->inverse + j * n, s->mean);
    for (int i = 0; i < d; i++) {
        if (!(observed[i] > 0.0)) continue;
        const double *const v = s->loadings + (int64_t)i * n, error = s->error[i] - dot(n, v, s->mean);
        double variance = 0.0;
        for (int j = 0; j < n; j++) {
            const double projection = dot(j + 1, s->inverse + j * n, v);
            variance += projection * projection;
        }
        s->squared_errors[i] = (error * error + variance) / w->noise[i];
    }
    return log_det;
}

/* Sets weights to (nu + n) / (nu + q), where n is the number of values that share a weight, and q the sum of their
 * `squared_errors`: of a single value, or of all values of the row if `by_row`. Returns the largest relative change of a
 * weight. */
ALWAYS_INLINE double reweigh(int d, const double *observed, const double *squared_errors, double degrees, int by_row, double *weights) {
    double count = 0.0, sum = 0.0, change = 0.0;
    for (int i = 0; i < d; i++) {
        if (!(observed[i] > 0.0)) continue;
        count += 1.0;
        sum += squared_errors[i];
    }
    for (int i = 0; i < d; i++) {
        if (!(observed[i] > 0.0)) continue;
        const double weight = (degrees + (by_row ? count : 1.0)) / (degrees + (by_row ? sum : squared_errors[i]));
        change = fmax(change, fabs(weight / weights[i] - 1.0));
        weights[i] = weight;
    }
    return change;
}

/* Log density of `count` values that share a weight, without the terms -log(2 pi r) / 2. `squared_error` is the sum of their
 * squared residuals in units of the noise variances r. */
ALWAYS_INLINE double student_term(double degrees, double count, double squared_error) {
    const double ratio = lgamma(0.5 * (degrees + count)) - lgamma(0.5 * degrees) - 0.5 * count * log(0.5 * degrees);
    return ratio - 0.5 * (degrees + count) * log1p(squared_error / degrees);
}

/* Maximum number of fixed-point iterations for a row, and maximum relative change of weights at convergence. */
enum { MAX_ITERATIONS = 100 };
static const double WEIGHT_TOLERANCE = 1e-10;

/* Causal filter under Student-t noise. The filtered state of the previous row is approximated by a Gaussian; weights and state
 * of each row are then computed by fixed-point iteration (Agamennoni et al. 2012). w->terms receives lower bounds of the log
 * densities of rows. */
ALWAYS_INLINE void student_rows(const rows_work *w, const int n, double degrees, int by_row, double *mean, double *root, double *scratch) {
    const int d = (int)w->n_features;
    filter_scratch f = make_filter_scratch(n, d, scratch);
    scratch += filter_scratch_size(n, d);
    student_scratch s;
    s.loadings = allocate(&scratch, (int64_t)d * n);
    s.error = allocate(&scratch, d);
    s.weights = allocate(&scratch, d);
    s.squared_errors = allocate(&scratch, d);
    s.precision = allocate(&scratch, n * n);
    s.inverse = allocate(&scratch, n * n);
    s.mean = allocate(&scratch, n);
    s.information = allocate(&scratch, n);
    for (int64_t t = 0; t < w->n_rows; t++) {
        const double *const observed = w->weights + t * d, *const values = w->values + t * d;
        band_times(n, w->bandwidth, w->transition + (int64_t)w->gap_index[t] * n * n, mean, f.predicted_mean);
        copy(n, f.predicted_mean, mean);
        predict(w, n, w->gap_index[t], root, &f, 0, 0);
        double count = 0.0, log_norm = 0.0;
        for (int i = 0; i < d; i++) {
            const double *const c = w->loadings + (int64_t)i * n;
            double *const v = s.loadings + (int64_t)i * n;
            times(n, n, f.predicted_root, c, v);
            if (!(observed[i] > 0.0)) continue;
            s.error[i] = values[i] - w->offset[i] - dot(n, c, mean);
            s.squared_errors[i] = s.error[i] * s.error[i] / (w->noise[i] + dot(n, v, v));
            s.weights[i] = 1.0;
            count += 1.0;
            log_norm += log(TWO_PI * w->noise[i]);
        }
        reweigh(d, observed, s.squared_errors, degrees, by_row, s.weights);
        for (int iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
            solve_student(w, n, observed, s.weights, &s);
            if (reweigh(d, observed, s.squared_errors, degrees, by_row, s.weights) <= WEIGHT_TOLERANCE) break;
        }
        const double log_det = solve_student(w, n, observed, s.weights, &s);
        /* Twice the Kullback-Leibler divergence of the posterior of v from its prior. */
        const double twice_divergence = log_det - n + dot(n, s.mean, s.mean) + dot(n * n, s.inverse, s.inverse);
        double sum = 0.0, term = 0.0;
        for (int i = 0; i < d; i++) {
            if (!(observed[i] > 0.0)) continue;
            sum += s.squared_errors[i];
            if (!by_row) term += student_term(degrees, 1.0, s.squared_errors[i]);
        }
        if (by_row && count > 0.0) term = student_term(degrees, count, sum);
        w->terms[t] = term - 0.5 * log_norm - 0.5 * twice_divergence;
        add_times_rows(n, n, s.mean, f.predicted_root, mean);
        clear(n * n, root);
        for (int j = 0; j < n; j++) add_times_rows(j + 1, n, s.inverse + j * n, f.predicted_root, root + j * n);
        copy(n, mean, w->filtered_means + t * n);
        covariance_of_root(n, root, w->filtered_covariances + t * n * n);
    }
}

/* Prediction with the covariance instead of its root: m <- A m, P <- A P A' + Q. */
ALWAYS_INLINE void predict_covariance(const rows_work *w, int n, int32_t gap, double *mean, double *covariance, double *temporary) {
    const double *const a = w->transition + (int64_t)gap * n * n, *const e = w->innovation + (int64_t)gap * n * n;
    times(n, n, a, mean, temporary);
    copy(n, temporary, mean);
    for (int i = 0; i < n; i++) times(n, n, a, covariance + i * n, temporary + i * n); /* P A' */
    covariance_of_root(n, e, covariance);
    for (int i = 0; i < n; i++)
        for (int l = 0; l < n; l++) add(n, a[i * n + l], temporary + l * n, covariance + i * n);
}

/* Updates mean m and covariance P with the values of a row, one after the other (univariate treatment, Koopman & Durbin 2000).
 * For a value x with loadings c and noise variance r, the variance is f = c' P c + r, the gain g = P c / f, and the prediction
 * error v = x - mu - c' m. `updates` (D, K + 2) receives g, v and f of each value. */
ALWAYS_INLINE void update_by_values(const rows_work *w, int n, int64_t t, double *mean, double *covariance, double *updates, double *temporary) {
    const int d = (int)w->n_features;
    for (int i = 0; i < d; i++, updates += n + 2) {
        if (!(w->weights[t * d + i] > 0.0)) continue;
        const double *const c = w->loadings + (int64_t)i * n;
        times(n, n, covariance, c, temporary);
        const double variance = dot(n, c, temporary) + w->noise[i], error = w->values[t * d + i] - w->offset[i] - dot(n, c, mean);
        for (int k = 0; k < n; k++) updates[k] = temporary[k] / variance;
        updates[n] = error;
        updates[n + 1] = variance;
        add(n, error, updates, mean);
        for (int k = 0; k < n; k++) add(n, -updates[k], temporary, covariance + k * n);
    }
}

/* Smoothing errors e and precisions d (T, D) of all values. The backward pass accumulates score s and information N of
 * later values about a state, as in the disturbance smoother (de Jong 1989):
 *
 *     e = v / f - g' s,   d = 1 / f + g' N g,   s <- s + c e,   N <- N - c (N g)' - (N g) c' + d c c'
 *
 * `states` (T, K + K^2) is scratch memory for the predicted means and covariances. */
ALWAYS_INLINE void leave_out(const rows_work *w, const int n, double *smoothing_errors, double *precisions, double *states,
                             double *scratch) {
    const int d = (int)w->n_features;
    double *mean = allocate(&scratch, n), *covariance = allocate(&scratch, n * n), *temporary = allocate(&scratch, n * n + n);
    double *updates = allocate(&scratch, (int64_t)d * (n + 2)), *information = allocate(&scratch, n * n), *score = allocate(&scratch, n);
    const int size = n + n * n;
    clear(n, mean);
    clear(n * n, covariance);
    for (int k = 0; k < n; k++) covariance[k * n + k] = 1.0;
    for (int64_t t = 0; t < w->n_rows; t++) {
        predict_covariance(w, n, w->gap_index[t], mean, covariance, temporary);
        copy(n, mean, states + t * size);
        copy(n * n, covariance, states + t * size + n);
        update_by_values(w, n, t, mean, covariance, updates, temporary);
    }
    clear(n, score);
    clear(n * n, information);
    for (int64_t t = w->n_rows - 1; t >= 0; t--) {
        const double *const a = w->transition + (int64_t)w->gap_index[t + 1] * n * n;
        clear(n, temporary); /* s <- A' s, N <- A' N A */
        add_times_rows(n, n, score, a, temporary);
        copy(n, temporary, score);
        clear(n * n, temporary);
        for (int i = 0; i < n; i++) add_times_rows(n, n, information + i * n, a, temporary + i * n);
        clear(n * n, information);
        for (int l = 0; l < n; l++)
            for (int i = 0; i < n; i++) add(n, a[l * n + i], temporary + l * n, information + i * n);
        copy(n, states + t * size, mean);
        copy(n * n, states + t * size + n, covariance);
        update_by_values(w, n, t, mean, covariance, updates, temporary);
        for (int i = d - 1; i >= 0; i--) {
            const int64_t at = t * d + i;
            smoothing_errors[at] = precisions[at] = 0.0;
            if (!(w->weights[at] > 0.0)) continue;
            const double *const c = w->loadings + (int64_t)i * n, *const g = updates + (int64_t)i * (n + 2);
            times(n, n, information, g, temporary);
            smoothing_errors[at] = g[n] / g[n + 1] - dot(n, g, score);
            precisions[at] = 1.0 / g[n + 1] + dot(n, g, temporary);
            add(n, smoothing_errors[at], c, score);
            add(n, -0.5 * precisions[at], c, temporary);
            for (int k = 0; k < n; k++) {
                add(n, -c[k], temporary, information + k * n);
                add(n, -temporary[k], c, information + k * n);
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

static int64_t scratch_size(int64_t n, int64_t d) { return filter_scratch_size(n, d) + (n + 3) * d + 2 * n * (n + 1); }

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

static void leave_one_out(const rows_work *w, double *smoothing_errors, double *precisions, double *states, double *scratch) {
    leave_out(w, (int)w->n_states, smoothing_errors, precisions, states, scratch);
}

const rows_kernels NAMED(rows_kernels, LEVEL) = {scratch_size, filter, smooth, draw, leave_one_out, filter_student};
