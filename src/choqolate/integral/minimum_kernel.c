/* Expected minima under pairs of distributions (the terms of factored integrals) and their gradients.
 *
 *     E[min(u_J, u_L)] = sum_k P_k Q_k gap_k,
 *
 * with J and L drawn from p and q, the inputs of a row in descending order, gap_k from the k-th input to the next, and P
 * and Q the running sums of p and q in that order. Such a walk visits the inputs in an order of its own for each row, so
 * the weights of LANES terms, a tile, are laid side by side in one cell per input. A walk takes one tile: its running
 * sums stay in registers, and the tile's cells stay in the cache while all rows are walked.
 *
 * Arrays are contiguous: order and gaps (rows, inputs), p and q (terms, inputs). The rows of values and g have a step.
 */
#if defined(__AVX512F__) && !defined(VECTOR_BYTES)
#define VECTOR_BYTES 32 /* a cell is one cache line, and twice as many cells stay in the cache */
#endif
#include "kernel.h"

#define RUN 32       /* places of a walk between two calls of settle */
#define AHEAD 16     /* places from the one in work to the one that is fetched */
#define BLOCK 64     /* inputs at a time where a matrix is read both ways */
#define PART_ROWS 16 /* rows that are worth slopes of their own */
#ifndef SUM_ROWS
#define SUM_ROWS 128 /* rows whose slopes are summed before they are added to others */
#endif
#ifndef PARTS
#define PARTS 8 /* tiles, or else parts of the rows, that threads can share among them */
#endif

typedef struct {
    vec q, p;
} cell;

/* A sum as high + low. Additions go to low, which stays small; settle moves it to high and leaves in low what high has
 * no digits for. So a sum of thousands of small weights has the rounding of a few. */
typedef struct {
    vec high, low;
} sum;
#define EMPTY {{0}, {0}}

INLINE vec value_of(const sum *x) { return x->high + x->low; }

INLINE void settle(sum *x) {
    vec total = x->high + x->low, added = total - x->high;
    x->low = (x->high - (total - added)) + (x->low - added);
    x->high = total;
}

/* ---------------------------------------------------------------- who works on what, in which memory */

typedef struct {
    index rows, inputs, terms, tiles;
    const real *p, *q;
    index parts;        /* of the rows, each with slopes of its own */
    cell *cells;        /* (tiles, inputs): the weights */
    cell *slopes, *own; /* (parts, tiles, inputs), and (2, inputs) for each thread */
    int threads;
} job;

static job divide(index rows, index inputs, index terms, int threads) {
    job x = {.rows = rows, .inputs = inputs, .terms = terms, .tiles = parts_of(terms, LANES)};
    x.threads = (double)rows * (double)inputs * (double)terms < PARALLEL_FROM ? 1 : threads;
    x.parts = larger(smaller(PARTS / larger(x.tiles, 1), rows / PART_ROWS), 1);
    return x;
}

static job make_job(const real *p, const real *q, index rows, index inputs, index terms, real *work, int threads) {
    job x = divide(rows, inputs, terms, threads);
    x.p = p, x.q = q;
    x.cells = (cell *)work;
    x.slopes = x.cells + x.tiles * inputs;
    x.own = x.slopes + x.parts * x.tiles * inputs;
    return x;
}

/* Numbers of workspace that any of the functions needs. */
index EXPORT(minimum_workspace)(index rows, index inputs, index terms, int threads) {
    job x = divide(rows, inputs, terms, threads);
    return ((1 + x.parts) * x.tiles + 2 * x.threads) * inputs * (index)(sizeof(cell) / sizeof(real));
}

INLINE index filled(const job *x, index tile) { return smaller(LANES, x->terms - tile * LANES); }

/* The numbers of a tile's terms in a row of all terms. */
INLINE vec load_terms(const job *x, const real *row, index tile) {
    vec loaded = {0};
    for (index i = 0; i < filled(x, tile); i++) loaded[i] = row[tile * LANES + i];
    return loaded;
}

/* Fill the cells; terms past the last weigh nothing. All threads call it. */
static void fill_cells(const job *x) {
    index blocks = parts_of(x->inputs, BLOCK);
#pragma omp for schedule(static)
    for (index item = 0; item < x->tiles * blocks; item++) {
        index tile = item / blocks, first = item % blocks * BLOCK, last = smaller(first + BLOCK, x->inputs);
        cell *cells = x->cells + tile * x->inputs;
        for (index i = 0; i < LANES; i++) {
            index start = (tile * LANES + i) * x->inputs;
            if (i < filled(x, tile))
                for (index j = first; j < last; j++) cells[j].q[i] = x->q[start + j], cells[j].p[i] = x->p[start + j];
            else
                for (index j = first; j < last; j++) cells[j].q[i] = cells[j].p[i] = 0;
        }
    }
}

/* ---------------------------------------------------------------- values */

static vec expect(const cell *cells, const int32_t *order, const real *gaps, index inputs) {
    sum q = EMPTY, p = EMPTY, value = EMPTY;
    for (index k = 0; k < inputs;) {
        for (index stop = smaller(k + RUN, inputs); k < stop; k++) {
            const cell *at = cells + order[k];
            __builtin_prefetch(cells + order[smaller(k + AHEAD, inputs - 1)]);
            q.low += at->q, p.low += at->p;
            value.low += value_of(&q) * (value_of(&p) * gaps[k]);
        }
        settle(&q), settle(&p), settle(&value);
    }
    return value.high;
}

/* values (rows, terms) of the expected minima. */
void EXPORT(minimum_values)(const int32_t *order, const real *gaps, const real *p, const real *q, real *values,
                            index step, index rows, index inputs, index terms, real *work, int threads) {
    job x = make_job(p, q, rows, inputs, terms, work, threads);
#pragma omp parallel num_threads(x.threads) if (x.threads > 1)
    {
        fill_cells(&x);
#pragma omp for schedule(static)
        for (index item = 0; item < x.tiles * rows; item++) { /* tile by tile */
            index tile = item / rows, row = item % rows;
            vec value = expect(x.cells + tile * inputs, order + row * inputs, gaps + row * inputs, inputs);
            for (index i = 0; i < filled(&x, tile); i++) values[row * step + tile * LANES + i] = value[i];
        }
    }
}

/* ---------------------------------------------------------------- gradient of the weights */

/* Add a row's slopes to others of its tile. The derivative with respect to p at place k is the sum of Q_i gap_i over i >= k:
 * one walk forward for the summands, one back to sum them. */
static void add_slopes(const cell *cells, const int32_t *order, const real *gaps, index inputs, vec g, cell *summands,
                       cell *slopes) {
    sum q = EMPTY, p = EMPTY, to_q = EMPTY, to_p = EMPTY;
    for (index k = 0; k < inputs;) {
        for (index stop = smaller(k + RUN, inputs); k < stop; k++) {
            const cell *at = cells + order[k];
            __builtin_prefetch(cells + order[smaller(k + AHEAD, inputs - 1)]);
            q.low += at->q, p.low += at->p;
            summands[k].q = value_of(&p) * gaps[k], summands[k].p = value_of(&q) * gaps[k];
        }
        settle(&q), settle(&p);
    }
    for (index k = inputs; k > 0;) {
        for (index stop = larger(k - RUN, 0); k > stop; k--) {
            cell *at = slopes + order[k - 1];
            __builtin_prefetch(slopes + order[larger(k - 1 - AHEAD, 0)]);
            to_q.low += summands[k - 1].q, to_p.low += summands[k - 1].p;
            at->q += g * value_of(&to_q), at->p += g * value_of(&to_p);
        }
        settle(&to_q), settle(&to_p);
    }
}

/* Set the slopes of a part's rows. Some rows are summed first: one long sum would lose a digit in single precision. */
static void sum_slopes(const job *x, index tile, index part, const int32_t *order, const real *gaps, const real *g,
                       index step) {
    index inputs = x->inputs, row = part * x->rows / x->parts, last = (part + 1) * x->rows / x->parts;
    cell *slopes = x->slopes + (part * x->tiles + tile) * inputs, *sums = slopes;
    cell *summands = x->own + 2 * this_thread() * inputs;
    do {
        for (index j = 0; j < inputs; j++) sums[j] = (cell)EMPTY;
        for (index stop = smaller(row + SUM_ROWS, last); row < stop; row++)
            add_slopes(x->cells + tile * inputs, order + row * inputs, gaps + row * inputs, inputs,
                       load_terms(x, g + row * step, tile), summands, sums);
        for (index j = 0; sums != slopes && j < inputs; j++) slopes[j].q += sums[j].q, slopes[j].p += sums[j].p;
        sums = summands + inputs;
    } while (row < last);
}

/* Add the slopes of all parts to the gradients of p and q. All threads call it. */
static void collect_slopes(const job *x, real *grad_p, real *grad_q) {
    index blocks = parts_of(x->inputs, BLOCK);
#pragma omp for schedule(static)
    for (index item = 0; item < x->tiles * blocks; item++) {
        index tile = item / blocks, first = item % blocks * BLOCK, last = smaller(first + BLOCK, x->inputs);
        cell *slopes = x->slopes + tile * x->inputs;
        for (index part = 1; part < x->parts; part++) {
            const cell *more = slopes + part * x->tiles * x->inputs;
            for (index j = first; j < last; j++) slopes[j].q += more[j].q, slopes[j].p += more[j].p;
        }
        for (index i = 0; i < filled(x, tile); i++) {
            index start = (tile * LANES + i) * x->inputs;
            for (index j = first; j < last; j++)
                grad_q[start + j] += slopes[j].q[i], grad_p[start + j] += slopes[j].p[i];
        }
    }
}

/* Add to the gradients (terms, inputs) of p and q, from the gradient g (rows, terms) of the values. */
void EXPORT(minimum_weight_gradient)(const int32_t *order, const real *gaps, const real *p, const real *q,
                                     const real *g, index step, real *grad_p, real *grad_q, index rows, index inputs,
                                     index terms, real *work, int threads) {
    job x = make_job(p, q, rows, inputs, terms, work, threads);
#pragma omp parallel num_threads(x.threads) if (x.threads > 1)
    {
        fill_cells(&x);
#pragma omp for schedule(dynamic)
        for (index item = 0; item < x.tiles * x.parts; item++)
            sum_slopes(&x, item / x.parts, item % x.parts, order, gaps, g, step);
        collect_slopes(&x, grad_p, grad_q);
    }
}

/* ---------------------------------------------------------------- gradient of the inputs */

/* Add what a tile gives to the gradient of a row. The derivative with respect to the input at place k is
 * P_k Q_k - P_k-1 Q_k-1 = q_k (P_k - p_k) + p_k Q_k. */
static void share(const cell *cells, const int32_t *order, index inputs, vec g, real *grad) {
    sum q = EMPTY, p = EMPTY;
    for (index k = 0; k < inputs;) {
        for (index stop = smaller(k + RUN, inputs), count; k < stop; k += count) {
            vec slopes[QUAD] = {{0}};
            real sums[QUAD];
            count = smaller(QUAD, stop - k);
            for (index i = 0; i < count; i++) {
                const cell *at = cells + order[k + i];
                q.low += at->q, p.low += at->p;
                slopes[i] = g * (at->q * (value_of(&p) - at->p) + at->p * value_of(&q));
            }
            sum_each(slopes, sums);
            for (index i = 0; i < count; i++) grad[order[k + i]] += sums[i];
        }
        settle(&q), settle(&p);
    }
}

/* Add to the gradient (rows, inputs) of the inputs. */
void EXPORT(minimum_input_gradient)(const int32_t *order, const real *p, const real *q, const real *g, index step,
                                    real *grad, index rows, index inputs, index terms, real *work, int threads) {
    job x = make_job(p, q, rows, inputs, terms, work, threads);
#pragma omp parallel num_threads(x.threads) if (x.threads > 1)
    {
        fill_cells(&x);
#pragma omp for schedule(static)
        for (index row = 0; row < rows; row++)
            for (index tile = 0; tile < x.tiles; tile++)
                share(x.cells + tile * inputs, order + row * inputs, inputs, load_terms(&x, g + row * step, tile),
                      grad + row * inputs);
    }
}
