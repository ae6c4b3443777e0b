/* Random shapes and strides through all functions of kernel.c, against plain loops in double precision.
 *
 * Compiled together with kernel.c and the sanitizers of the compiler. Every array is allocated with exactly the size that
 * the functions may touch. Arguments: number of trials, seed. */
#include "kernel.c"
#include "fuzz.h"

/* Steps of an array (stacks, rows, columns) laid out in one of several ways, and how many numbers it spans. */
static strided layout(index stacks, index rows, index columns, index *span) {
    strided x = {NULL, rows * columns, columns, 1};
    switch (below(4)) {
    case 0: x.row = 1, x.column = rows; break;                                     /* transposed */
    case 1: x.column = 2, x.row = 2 * columns + 1, x.stack = x.row * rows; break;  /* every other column */
    case 2: x.stack = 0; break;                                                    /* expanded */
    }
    index last = larger(stacks - 1, 0) * x.stack + larger(rows - 1, 0) * x.row + larger(columns - 1, 0) * x.column;
    *span = stacks && rows && columns ? last + 1 : 0;
    return x;
}
static double at(const strided *x, index s, index b, index m) { return (double)x->data[s * x->stack + b * x->row + m * x->column]; }

static void trial(void) {
    static const index sizes[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 40};
    index stacks = 1 + below(3), inputs = sizes[below(12)], nodes = 1 + below(below(4) ? 12 : 40);
    index rows = below(6) ? below(70) : 500 + below(40);
    int softmax = (int)below(2), threads = 1 + (int)below(4), with_mass = (int)below(2);
    index count = stacks * nodes * inputs * inputs, u_span, g_span;
    strided u = layout(stacks, rows, inputs, &u_span), g = layout(stacks, rows, nodes, &g_span);
    real *u_data = take(u_span, sizeof(real)), *g_data = take(g_span, sizeof(real));
    for (index i = 0; i < u_span; i++) u_data[i] = (real)(below(3) ? uniform() : (double)below(3) / 2); /* some ties */
    for (index i = 0; i < g_span; i++) g_data[i] = (real)(uniform() - 0.5);
    u.data = u_data, g.data = g_data;
    real *theta = take(count, sizeof(real)), *values = take(stacks * rows * nodes, sizeof(real));
    real *mass = take(stacks * nodes * softmax, sizeof(real)), *scale = take(stacks * nodes * 2 * softmax, sizeof(real));
    real *g_mass = take(stacks * nodes, sizeof(real)), *grad = take(count, sizeof(real));
    real *grad_u = take(stacks * rows * inputs, sizeof(real));
    for (index i = 0; i < count; i++) theta[i] = (real)(4 * uniform() - 2);
    for (index i = 0; i < stacks * nodes; i++) g_mass[i] = (real)uniform();
    real *work = take(EXPORT(choquet_workspace)(stacks, rows, inputs, nodes, softmax, threads), sizeof(real));

    EXPORT(choquet_values)(u.data, u.stack, u.row, u.column, theta, softmax, values, mass, scale, stacks, rows, inputs, nodes,
                           work, threads);
    EXPORT(choquet_weight_gradient)(u.data, u.stack, u.row, u.column, theta, softmax, scale, values, mass, g.data, g.stack,
                                    g.row, g.column, softmax && with_mass ? g_mass : NULL, grad, stacks, rows, inputs,
                                    nodes, work, threads);
    EXPORT(choquet_input_gradient)(u.data, u.stack, u.row, u.column, theta, softmax, scale, g.data, g.stack, g.row,
                                   g.column, grad_u, stacks, rows, inputs, nodes, work, threads);

    double *w = take(count, sizeof(double)), *d_u = take(stacks * rows * inputs, sizeof(double));
    double *d_w = take(inputs * inputs, sizeof(double));
    for (index i = 0; i < stacks * rows * inputs; i++) d_u[i] = 0;
    for (index s = 0; s < stacks; s++)
        for (index n = 0; n < nodes; n++) {
            const real *own = theta + (s * nodes + n) * inputs * inputs;
            double *mine = w + (s * nodes + n) * inputs * inputs, total = 0, mean = 0;
            for (index i = 0; i < inputs * inputs; i++) total += mine[i] = softmax ? exp((double)own[i]) : (double)own[i];
            for (index i = 0; softmax && i < inputs * inputs; i++) mine[i] /= total;
            for (index i = 0; i < inputs * inputs; i++) d_w[i] = 0;
            for (index b = 0; b < rows; b++) {
                double value = 0, slope = at(&g, s, b, n);
                for (index j = 0; j < inputs; j++)
                    for (index l = 0; l < inputs; l++) {
                        double x = at(&u, s, b, j), y = at(&u, s, b, l);
                        double feature = j <= l ? fmin(x, y) : fmax(x, y);
                        double to_j = x == y ? 0.5 : (x < y) == (j <= l) ? 1 : 0;
                        value += mine[j * inputs + l] * feature;
                        d_w[j * inputs + l] += slope * feature;
                        d_u[(s * rows + b) * inputs + j] += slope * mine[j * inputs + l] * to_j;
                        d_u[(s * rows + b) * inputs + l] += slope * mine[j * inputs + l] * (1 - to_j);
                    }
                check("value", (double)values[(s * rows + b) * nodes + n], value, 1);
            }
            double pairs = 1, price = softmax && with_mass ? (double)g_mass[s * nodes + n] : 0;
            for (index j = 0; j < inputs; j++) pairs -= mine[j * (inputs + 1)], d_w[j * (inputs + 1)] -= price;
            if (softmax) check("mass", (double)mass[s * nodes + n], pairs, 1);
            for (index i = 0; i < inputs * inputs; i++) mean += mine[i] * d_w[i];
            for (index i = 0; i < inputs * inputs; i++)
                check("gradient of a weight", (double)grad[(s * nodes + n) * inputs * inputs + i],
                      softmax ? mine[i] * (d_w[i] - mean) : d_w[i], 1 + 0.05 * (double)rows);
        }
    for (index i = 0; i < stacks * rows * inputs; i++) check("gradient of an input", (double)grad_u[i], d_u[i], 10);
    void *all[] = {u_data, g_data, theta, values, mass, scale, g_mass, grad, grad_u, work, w, d_u, d_w};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) free(all[i]);
}
