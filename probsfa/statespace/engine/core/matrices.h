/* Operations on small matrices, four matrices in parallel, one in each lane of SIMD vectors.
 *
 * The number of states may be a constant of the compilation (-DSTATES=5). The compiler then unrolls loops and keeps most of a
 * small matrix in registers. Otherwise, for up to a maximum number of states (-DUP_TO=32), matrices are processed in blocks of
 * four columns. Several sums are accumulated in registers at the same time, because each addition to a single sum would have
 * to wait for the previous one.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES 4
#ifdef STATES
#define STRIDE STATES /* distance of rows in memory */
#else
/* One more than the maximum number of states, because rows whose distance is a power of two map to the same cache lines. */
#define STRIDE (UP_TO + 1)
#endif
#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* For loops of constant length whose arrays should be in registers. */
#define UNROLL _Pragma("GCC unroll 4")
#define UNROLL8 _Pragma("GCC unroll 8")

typedef double lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(8)));
typedef int64_t integers __attribute__((vector_size(LANES * sizeof(int64_t)), aligned(8)));
typedef lanes vector[STRIDE];
typedef lanes matrix[STRIDE][STRIDE];

/* Scratch memory, allocated by the caller because it may exceed the stack of a thread. A function takes matrices from its own
 * copy of the arena and passes that copy on to the functions that it calls. The memory is free again when it returns. */
typedef struct {
    char *next;
} arena;

ALWAYS_INLINE void *allocate(arena *space, size_t size) {
    void *allocated = space->next;
    space->next += size;
    return allocated;
}
/* LOCAL_MATRIX declares a matrix, LOCAL a pointer to a variable of another type. Their memory is in registers or on the stack
 * for few states, otherwise in the arena. */
#ifdef STATES
#define LOCAL_MATRIX(name) matrix name
#define LOCAL(type, name) \
    type name##_storage; \
    type *const name = &name##_storage
#else
#define LOCAL_MATRIX(name) lanes(*const name)[STRIDE] = allocate(&space, sizeof(matrix))
#define LOCAL(type, name) type *const name = allocate(&space, sizeof(type))
#endif

static inline lanes broadcast(double x) { return (lanes){x, x, x, x}; }

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, (integers){i, j, k, l})
#endif

typedef union {
    lanes number;
    integers bits;
} bit_pattern;

/* Replaces numbers that are not positive and finite by NaN, so that an indefinite matrix leads to results of NaN. */
static inline lanes nan_unless_positive(lanes x) {
    bit_pattern pattern = {x};
    pattern.bits |= ~((x > broadcast(0.0)) & (x < broadcast(INFINITY)));
    return pattern.number;
}

/* Logarithms of positive normal numbers; NaN for NaN. For x = 2^e m with sqrt(1/2) <= m < sqrt(2), the logarithm is
 * e log 2 + 2 artanh(s) with s = (m - 1) / (m + 1). */
static inline lanes log_of(lanes x) {
    bit_pattern pattern = {x};
    const integers offset_bits = pattern.bits - 0x3fe6a09e667f3bcd; /* sqrt(1/2) */
    const integers exponent = offset_bits >> 52;
    pattern.bits -= exponent << 52;
    const lanes s = (pattern.number - 1.0) / (pattern.number + 1.0), q = s * s;
    lanes sum = broadcast(2.0 / 23.0);
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
    /* Zero, or NaN if x is NaN: the operations on bits above treat NaN as a number. */
    const lanes zero_or_nan = x - x;
    return e * 0.693147180369123816490 + (2.0 * s + (s * q * sum + e * 1.90821492927058770002e-10)) + zero_or_nan;
}

/* Transposes a matrix of four by four numbers. */
static inline void transpose(const lanes in[4], lanes out[4]) {
    const lanes even = SHUFFLE(in[0], in[1], 0, 4, 2, 6), odd = SHUFFLE(in[0], in[1], 1, 5, 3, 7);
    const lanes later_even = SHUFFLE(in[2], in[3], 0, 4, 2, 6), later_odd = SHUFFLE(in[2], in[3], 1, 5, 3, 7);
    out[0] = SHUFFLE(even, later_even, 0, 1, 4, 5);
    out[1] = SHUFFLE(odd, later_odd, 0, 1, 4, 5);
    out[2] = SHUFFLE(even, later_even, 2, 3, 6, 7);
    out[3] = SHUFFLE(odd, later_odd, 2, 3, 6, 7);
}

/* Writes `count` numbers of each lane to a separate address for each lane. */
static inline void scatter(int count, const lanes *from, double *const to[LANES], int64_t offset) {
    for (int j = 0; j + 3 < count; j += 4) {
        lanes rows[4];
        transpose(from + j, rows);
        for (int l = 0; l < LANES; l++) *(lanes *)(to[l] + offset + j) = rows[l];
    }
    for (int j = count & ~3; j < count; j++)
        for (int l = 0; l < LANES; l++) to[l][offset + j] = from[j][l];
}

/* Reads `count` numbers for each lane from a separate address for each lane; zeros if the address is NULL. */
static inline void gather(int count, const double *const from[LANES], int64_t offset, lanes *to) {
    static const double zeros[LANES];
    for (int j = 0; j + 3 < count; j += 4) {
        lanes rows[LANES];
        for (int l = 0; l < LANES; l++) rows[l] = *(const lanes *)(from[l] ? from[l] + offset + j : zeros);
        transpose(rows, to + j);
    }
    for (int j = count & ~3; j < count; j++)
        for (int l = 0; l < LANES; l++) to[j][l] = from[l] ? from[l][offset + j] : 0.0;
}

static inline lanes dot(const lanes *a, const lanes *b, int from, int to) {
    lanes sum = broadcast(0.0);
    for (int k = from; k < to; k++) sum += a[k] * b[k];
    return sum;
}

/* Dot products of a row with four rows. */
static inline void dot4(const lanes *a, const lanes *b0, const lanes *b1, const lanes *b2, const lanes *b3, int from, int to, lanes *out) {
    lanes s0 = broadcast(0.0), s1 = s0, s2 = s0, s3 = s0;
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

/* Dot products of up to three rows of a matrix with up to four rows of another. The 12 sums, 3 numbers of the first matrix and
 * one of the second fit into 16 registers. */
ALWAYS_INLINE void tile(const int height, const int width, const lanes *a, const lanes *b, int to, lanes *out) {
    lanes sums[3][4];
    UNROLL for (int h = 0; h < height; h++)
        UNROLL for (int w = 0; w < width; w++) sums[h][w] = broadcast(0.0);
    for (int k = 0; k < to; k++) {
        lanes x[3];
        UNROLL for (int h = 0; h < height; h++) x[h] = a[h * STRIDE + k];
        UNROLL for (int w = 0; w < width; w++) {
            const lanes y = b[w * STRIDE + k];
            UNROLL for (int h = 0; h < height; h++) sums[h][w] += x[h] * y;
        }
    }
    UNROLL for (int h = 0; h < height; h++)
        UNROLL for (int w = 0; w < width; w++) out[h * STRIDE + w] = sums[h][w];
}

/* Dot products of up to three rows of a matrix with `width` rows of another. */
ALWAYS_INLINE void strip(const int height, int width, const lanes *a, const matrix b, int n, lanes *out) {
    int j = 0;
    for (; j + 3 < width; j += 4) tile(height, 4, a, b[j], n, out + j);
    switch (width - j) {
    case 3: tile(height, 3, a, b[j], n, out + j); break;
    case 2: tile(height, 2, a, b[j], n, out + j); break;
    case 1: tile(height, 1, a, b[j], n, out + j);
    }
}

/* out = a b', dot products of rows. With `lower`, for a symmetric product, only the lower triangle is complete. */
static inline void times_transposed(int n, const matrix a, const matrix b, int lower, matrix out) {
    int i = 0;
    for (; i + 2 < n; i += 3) strip(3, lower ? i + 3 : n, a[i], b, n, out[i]);
    switch (n - i) {
    case 2: strip(2, n, a[i], b, n, out[i]); break;
    case 1: strip(1, n, a[i], b, n, out[i]);
    }
}

/* Copies the lower triangle to the upper one. */
static inline void mirror(int n, matrix m) {
    for (int i = 1; i < n; i++)
        for (int j = 0; j < i; j++) m[j][i] = m[i][j];
}

/* out = m v. */
static inline void times(int n, const matrix m, const vector v, vector out) {
    int i = 0;
    for (; i + 3 < n; i += 4) dot4(v, m[i], m[i + 1], m[i + 2], m[i + 3], 0, n, out + i);
    for (; i < n; i++) out[i] = dot(m[i], v, 0, n);
}

#ifdef STATES

/* Factorises a symmetric matrix, given by its lower triangle, as L D L': L below its unit diagonal in `factor`, L D in
 * `scaled`, and D^-1 in `reciprocal`. Returns the logarithm of the determinant. */
static inline lanes factorise(int n, const matrix m, matrix factor, matrix scaled, vector reciprocal) {
    lanes log_det = broadcast(0.0), determinant = broadcast(1.0);
    for (int j = 0; j < n; j++) {
        const lanes pivot = nan_unless_positive(m[j][j] - dot(scaled[j], factor[j], 0, j));
        determinant *= pivot;
        if (j % 4 == 3 || j == n - 1) { /* the product of more than four pivots may overflow */
            log_det += log_of(nan_unless_positive(determinant));
            determinant = broadcast(1.0);
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

/* Computes the complete inverse of a symmetric positive definite matrix; returns the logarithm of its determinant. */
static inline lanes invert(int n, const matrix m, matrix inverse) {
    matrix factor, scaled, inverse_factor; /* inverse_factor: L^-1, transposed; row j starts at column j */
    vector reciprocal;
    const lanes log_det = factorise(n, m, factor, scaled, reciprocal);
    for (int i = 0; i < n; i++) {
        inverse_factor[i][i] = broadcast(1.0);
        for (int j = 0; j < i; j++) inverse_factor[j][i] = -dot(factor[i], inverse_factor[j], j, i);
    }
    for (int i = 0; i < n; i++)
        for (int k = i; k < n; k++) scaled[i][k] = inverse_factor[i][k] * reciprocal[k];
    for (int i = 0; i < n; i++) {
        int j = 0;
        for (; j + 3 <= i; j += 4) dot4(scaled[i], inverse_factor[j], inverse_factor[j + 1], inverse_factor[j + 2], inverse_factor[j + 3], i, n, &inverse[i][j]);
        for (; j <= i; j++) inverse[i][j] = dot(scaled[i], inverse_factor[j], i, n);
    }
    mirror(n, inverse);
    return log_det;
}

/* Solves a linear system with a symmetric positive definite matrix; returns the logarithm of its determinant. */
static inline lanes solve(int n, const matrix m, const vector right, vector solution, arena space) {
    matrix factor, scaled;
    (void)space;
    vector reciprocal;
    const lanes log_det = factorise(n, m, factor, scaled, reciprocal);
    for (int i = 0; i < n; i++) solution[i] = right[i] - dot(factor[i], solution, 0, i);
    for (int i = n - 1; i >= 0; i--) {
        solution[i] *= reciprocal[i];
        for (int k = i + 1; k < n; k++) solution[i] -= factor[k][i] * solution[k];
    }
    return log_det;
}

#else

/* Replaces a small symmetric matrix, given by its lower triangle, by minus its inverse; returns its determinant. */
ALWAYS_INLINE lanes sweep_block(const int size, lanes block[4][4]) {
    lanes determinant = broadcast(1.0);
    UNROLL for (int b = 0; b < size; b++) {
        const lanes pivot = nan_unless_positive(block[b][b]), reciprocal = 1.0 / pivot;
        lanes column[4], solved[4];
        determinant *= pivot;
        UNROLL for (int c = 0; c < size; c++) {
            if (c == b) continue;
            column[c] = c < b ? block[b][c] : block[c][b];
            solved[c] = column[c] * reciprocal;
        }
        UNROLL for (int c = 0; c < size; c++) {
            if (c == b) continue;
            UNROLL for (int e = 0; e <= c; e++)
                if (e != b) block[c][e] -= solved[c] * column[e];
        }
        UNROLL for (int c = 0; c < size; c++) {
            if (c < b) block[b][c] = solved[c];
            if (c > b) block[c][b] = solved[c];
        }
        block[b][b] = -reciprocal;
    }
    return determinant;
}

/* m[h][j] += dot product of row h of a and row j of b, both with `size` columns, for j < to. */
ALWAYS_INLINE void update(const int height, const int size, int to, const lanes (*a)[4], const lanes (*b)[4], lanes *m) {
    lanes x[3][4];
    UNROLL for (int h = 0; h < height; h++)
        UNROLL for (int c = 0; c < size; c++) x[h][c] = a[h][c];
    for (int j = 0; j < to; j++) {
        lanes sums[3];
        UNROLL for (int h = 0; h < height; h++) sums[h] = m[h * STRIDE + j];
        UNROLL for (int c = 0; c < size; c++) {
            const lanes y = b[j][c];
            UNROLL for (int h = 0; h < height; h++) sums[h] += x[h][c] * y;
        }
        UNROLL for (int h = 0; h < height; h++) m[h * STRIDE + j] = sums[h];
    }
}

/* The sweep operator for a set J of columns of a symmetric matrix, given by its lower triangle: A_JJ becomes -A_JJ^-1, A_iJ
 * becomes A_iJ A_JJ^-1, and A_ik becomes A_ik - A_iJ A_JJ^-1 A_Jk. Sweeping all columns gives minus the inverse. Returns
 * log|A_JJ|. */
ALWAYS_INLINE lanes sweep(const int size, int n, int first, matrix m) {
    lanes columns[STRIDE][4], solved[STRIDE][4], block[4][4];
    UNROLL for (int b = 0; b < size; b++)
        UNROLL for (int c = 0; c <= b; c++) block[b][c] = m[first + b][first + c];
    for (int j = 0; j < first; j++)
        UNROLL for (int b = 0; b < size; b++) columns[j][b] = m[first + b][j];
    UNROLL for (int c = 0; c < size; c++)
        UNROLL for (int b = 0; b < size; b++) columns[first + c][b] = broadcast(0.0);
    for (int j = first + size; j < n; j++)
        UNROLL for (int b = 0; b < size; b++) columns[j][b] = m[j][first + b];
    const lanes log_det = log_of(nan_unless_positive(sweep_block(size, block)));
    for (int i = 0; i < n; i++) {
        lanes x[4];
        UNROLL for (int b = 0; b < size; b++) x[b] = columns[i][b];
        UNROLL for (int b = 0; b < size; b++) {
            lanes sum = x[0] * block[b][0];
            UNROLL for (int c = 1; c < size; c++) sum += x[c] * (c < b ? block[b][c] : block[c][b]);
            solved[i][b] = sum; /* -A_iJ A_JJ^-1, because `block` is -A_JJ^-1 */
        }
    }
    int i = 0;
    for (; i + 2 < n; i += 3) update(3, size, i + 3, solved + i, columns, m[i]);
    switch (n - i) {
    case 2: update(2, size, n, solved + i, columns, m[i]); break;
    case 1: update(1, size, n, solved + i, columns, m[i]);
    }
    for (int j = 0; j < first; j++)
        UNROLL for (int b = 0; b < size; b++) m[first + b][j] = -solved[j][b];
    for (int j = first + size; j < n; j++)
        UNROLL for (int b = 0; b < size; b++) m[j][first + b] = -solved[j][b];
    UNROLL for (int b = 0; b < size; b++)
        UNROLL for (int c = 0; c <= b; c++) m[first + b][first + c] = block[b][c];
    return log_det;
}

/* Computes the complete inverse of a symmetric positive definite matrix; returns the logarithm of its determinant. */
static inline lanes invert(int n, const matrix m, matrix inverse) {
    lanes log_det = broadcast(0.0);
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) inverse[i][j] = m[i][j];
    int first = 0;
    for (; first + 3 < n; first += 4) log_det += sweep(4, n, first, inverse);
    switch (n - first) {
    case 3: log_det += sweep(3, n, first, inverse); break;
    case 2: log_det += sweep(2, n, first, inverse); break;
    case 1: log_det += sweep(1, n, first, inverse);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) inverse[i][j] = inverse[j][i] = -inverse[i][j];
    return log_det;
}

typedef lanes augmented_matrix[STRIDE + 1][STRIDE];

/* Computes `size` columns of L and of L D, starting at column `first`, for the matrix L D L' with the right-hand side as an
 * additional last row. Returns the logarithm of the product of their pivots. */
ALWAYS_INLINE lanes factorise(const int size, int n, int first, const matrix m, const vector right, augmented_matrix factor, augmented_matrix scaled) {
    lanes determinant = broadcast(1.0), block[4][4], reciprocal[4], dot_products[3][STRIDE];
    for (int i = first; i <= n; i += 3) {
        const int height = n + 1 - i < 3 ? n + 1 - i : 3;
        switch (first ? height : 0) {
        case 3: tile(3, size, scaled[i], factor[first], first, dot_products[0]); break;
        case 2: tile(2, size, scaled[i], factor[first], first, dot_products[0]); break;
        case 1: tile(1, size, scaled[i], factor[first], first, dot_products[0]);
        }
        for (int h = 0; h < height; h++) {
            const lanes *from = i + h < n ? m[i + h] : right;
            UNROLL for (int b = 0; b < size; b++)
                scaled[i + h][first + b] = first ? from[first + b] - dot_products[h][b] : from[first + b];
        }
    }
    UNROLL for (int b = 0; b < size; b++)
        UNROLL for (int c = 0; c <= b; c++) block[b][c] = scaled[first + b][first + c];
    UNROLL for (int c = 0; c < size; c++) {
        const lanes pivot = nan_unless_positive(block[c][c]);
        determinant *= pivot;
        reciprocal[c] = 1.0 / pivot;
        UNROLL for (int b = c + 1; b < size; b++) {
            const lanes x = block[b][c] * reciprocal[c];
            factor[first + b][first + c] = x;
            UNROLL for (int e = c + 1; e <= b; e++) block[b][e] -= x * block[e][c];
        }
    }
    UNROLL for (int b = 0; b < size; b++)
        UNROLL for (int c = 0; c < b; c++) scaled[first + b][first + c] = block[b][c];
    for (int i = first + size; i <= n; i++) {
        lanes row[4];
        UNROLL for (int c = 0; c < size; c++) row[c] = scaled[i][first + c];
        UNROLL for (int c = 0; c < size; c++) {
            const lanes x = row[c] * reciprocal[c];
            factor[i][first + c] = x;
            UNROLL for (int e = c + 1; e < size; e++) row[e] -= x * block[e][c];
        }
        UNROLL for (int c = 0; c < size; c++) scaled[i][first + c] = row[c];
    }
    return log_of(nan_unless_positive(determinant)); /* the product of more than four pivots may overflow */
}

/* Solves a linear system with a symmetric positive definite matrix, given by its lower triangle; returns the logarithm of its
 * determinant. */
static inline lanes solve(int n, const matrix m, const vector right, vector solution, arena space) {
    lanes(*const factor)[STRIDE] = allocate(&space, sizeof(augmented_matrix)), (*const scaled)[STRIDE] = allocate(&space, sizeof(augmented_matrix));
    lanes log_det = broadcast(0.0);
    int first = 0;
    for (; first + 3 < n; first += 4) log_det += factorise(4, n, first, m, right, factor, scaled);
    switch (n - first) {
    case 3: log_det += factorise(3, n, first, m, right, factor, scaled); break;
    case 2: log_det += factorise(2, n, first, m, right, factor, scaled); break;
    case 1: log_det += factorise(1, n, first, m, right, factor, scaled);
    }
    for (int i = 0; i < n; i++) solution[i] = factor[n][i];
    for (int k = n - 1; k > 0; k--)
        for (int i = 0; i < k; i++) solution[i] -= factor[k][i] * solution[k];
    return log_det;
}

#endif
