/* Random shapes through all functions of minimum_kernel.c, against the double sum over pairs in double precision.
 *
 * Compiled together with minimum_kernel.c and the sanitizers of the compiler. Every array is allocated with exactly the
 * size that the functions may touch. Arguments: number of trials, seed. */
#include "minimum_kernel.c"
#include "fuzz.h"

static const real *sorted_row; /* of the row that is being sorted */
static int descending(const void *one, const void *other) {
    index i = *(const int32_t *)one, j = *(const int32_t *)other;
    if (sorted_row[i] != sorted_row[j]) return sorted_row[i] > sorted_row[j] ? -1 : 1;
    return i < j ? -1 : i > j;
}

static real *random_numbers(index count, double low, double high) {
    real *x = take(count, sizeof(real));
    for (index i = 0; i < count; i++) x[i] = (real)(low + (high - low) * uniform());
    return x;
}

static real *zeros(index count) {
    real *x = take(count, sizeof(real));
    for (index i = 0; i < count; i++) x[i] = 0;
    return x;
}

static void trial(void) {
    static const index sizes[] = {1, 2, 3, 7, 31, 32, 33, 40, 64, 65, 70, 130};
    index inputs = sizes[below(12)], terms = 1 + below(below(4) ? 12 : 40), step = terms + below(3);
    index rows = below(6) ? below(12) : 40 + below(40);
    int threads = 1 + (int)below(4);
    index outputs = rows ? (rows - 1) * step + terms : 0;
    real *u = random_numbers(rows * inputs, 0, 1), *gaps = take(rows * inputs, sizeof(real));
    real *p = random_numbers(terms * inputs, 0, 2.0 / (double)inputs);
    real *q = random_numbers(terms * inputs, 0, 2.0 / (double)inputs);
    real *g = random_numbers(outputs, -0.5, 0.5), *values = take(outputs, sizeof(real));
    real *grad_p = zeros(terms * inputs), *grad_q = zeros(terms * inputs), *grad_u = zeros(rows * inputs);
    int32_t *order = take(rows * inputs, sizeof(int32_t));
    for (index i = 0; i < rows * inputs; i++)
        if (below(3) == 0) u[i] = (real)below(3) / 2; /* some ties, some zeros */
    for (index b = 0; b < rows; b++) {
        int32_t *own = order + b * inputs;
        sorted_row = u + b * inputs;
        for (index k = 0; k < inputs; k++) own[k] = (int32_t)k;
        qsort(own, (size_t)inputs, sizeof(int32_t), descending);
        for (index k = 0; k < inputs; k++)
            gaps[b * inputs + k] = sorted_row[own[k]] - (k + 1 < inputs ? sorted_row[own[k + 1]] : 0);
    }
    real *work = take(EXPORT(minimum_workspace)(rows, inputs, terms, threads), sizeof(real));
    EXPORT(minimum_values)(order, gaps, p, q, values, step, rows, inputs, terms, work, threads);
    EXPORT(minimum_weight_gradient)(order, gaps, p, q, g, step, grad_p, grad_q, rows, inputs, terms, work, threads);
    EXPORT(minimum_input_gradient)(order, p, q, g, step, grad_u, rows, inputs, terms, work, threads);

    double *d_u = take(rows * inputs, sizeof(double));
    for (index i = 0; i < rows * inputs; i++) d_u[i] = 0;
    for (index c = 0; c < terms; c++)
        for (index j = 0; j < inputs; j++) {
            double d_p = 0, d_q = 0;
            for (index b = 0; b < rows; b++) {
                const real *row = u + b * inputs;
                double to_p = 0, to_q = 0, slope = (double)g[b * step + c];
                for (index l = 0; l < inputs; l++) {
                    double low = fmin((double)row[j], (double)row[l]);
                    to_p += low * (double)q[c * inputs + l], to_q += low * (double)p[c * inputs + l];
                    int is_j = row[j] < row[l] || (row[j] == row[l] && j >= l); /* of equal inputs the later is smaller */
                    double pair = (double)p[c * inputs + j] * (double)q[c * inputs + l];
                    d_u[b * inputs + (is_j ? j : l)] += slope * pair;
                }
                d_p += slope * to_p, d_q += slope * to_q;
            }
            check("gradient of p", (double)grad_p[c * inputs + j], d_p, 1 + 0.05 * (double)rows);
            check("gradient of q", (double)grad_q[c * inputs + j], d_q, 1 + 0.05 * (double)rows);
        }
    for (index b = 0; b < rows; b++)
        for (index c = 0; c < terms; c++) {
            double value = 0;
            for (index j = 0; j < inputs; j++)
                for (index l = 0; l < inputs; l++)
                    value += (double)p[c * inputs + j] * (double)q[c * inputs + l] *
                             fmin((double)u[b * inputs + j], (double)u[b * inputs + l]);
            check("value", (double)values[b * step + c], value, 1);
        }
    for (index i = 0; i < rows * inputs; i++) check("gradient of an input", (double)grad_u[i], d_u[i], 1);
    void *all[] = {u, gaps, p, q, g, values, grad_p, grad_q, grad_u, order, work, d_u};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) free(all[i]);
}
