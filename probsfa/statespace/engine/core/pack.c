/* Standardisation of rows with missing values. */
#include <stdint.h>

/* Writes standardised values (x - shift) / scale, zero where x is NaN, and the mask of observed values, one or zero. */
void pack(int64_t n_rows, int64_t n_features, const double *rows, const double *shift, const double *scale, double *restrict values, double *restrict present) {
    for (int64_t r = 0; r < n_rows; r++, rows += n_features, values += n_features, present += n_features)
        for (int64_t d = 0; d < n_features; d++) {
            const double x = rows[d], value = (x - shift[d]) / scale[d];
            values[d] = x == x ? value : 0.0;
            present[d] = x == x ? 1.0 : 0.0;
        }
}
