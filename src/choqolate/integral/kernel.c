/* The pairwise integral, its softmax, and their gradients, without the (batch x pairs) matrix.
 *
 * The weights of an integral over M inputs fill a matrix w (M x M): a on the diagonal, b (min) above, c (max) below it.
 * Because min(x, y) + max(x, y) = x + y, one feature per pair is enough,
 *
 *     C(u) = sum_j linear_j u_j + sum_{j<l} (b_jl - c_jl) min(u_j, u_l),     linear_j = a_j + sum_l c_jl,
 *
 * and min(u_j, u_j) = u_j makes linear_j the "pair" (j, j). A minimum is computed in a register for a vector of rows
 * and multiplied at once with the weights of several integrals. It never goes to memory.
 *
 * Arrays are contiguous, except the inputs u and the gradients g, which have a step for each of their three axes.
 */
#include "kernel.h"

#ifdef DOUBLE
#define EXP_DEGREE 13
#define MANTISSA 52
#define EXP_BIAS 1023
#define EXP_LOWEST -708.0
#define ROUNDING 0x1.8p52
#define LN2_HIGH 0x1.62e42fefa3800p-1
#define LN2_LOW 0x1.ef35793c76730p-45
#else
#define EXP_DEGREE 7
#define MANTISSA 23
#define EXP_BIAS 127
#define EXP_LOWEST -87.0f
#define ROUNDING 0x1.8p23f
#define LN2_HIGH 0x1.63p-1f
#define LN2_LOW -0x1.bd0106p-13f
#endif

#define NODES 8           /* integrals per tile: they share the rows that are laid out for them */
#define ROWS 2            /* vectors of rows, or */
#define PAIRS 3           /* pairs, whose sums for QUAD integrals stay in registers: enough not to wait for each other */
#define CHUNK 8           /* vectors of rows that use a panel of weights before the next is fetched */
#define PANEL 4096        /* weights of a panel: half of the first-level cache */
#define GRADIENT_ROWS 512 /* rows of the batch that a gradient sums at a time */
#define BLOCK 16          /* columns at a time where a matrix is read both ways */
#ifndef GROUP
#define GROUP (1 << 19) /* weights prepared at a time */
#endif

typedef struct {
    const real *data;
    index stack, row, column; /* steps */
} strided;

/* ---------------------------------------------------------------- small things */

/* One instruction where the compiler has a name for it. */
#if defined(__clang__)
#define minimum(a, b) __builtin_elementwise_min(a, b)
#define maximum(a, b) __builtin_elementwise_max(a, b)
#elif VECTOR_BYTES == 64 && defined(__AVX512F__) && defined(DOUBLE)
#define minimum(a, b) ((vec)_mm512_min_pd(a, b))
#define maximum(a, b) ((vec)_mm512_max_pd(a, b))
#elif VECTOR_BYTES == 64 && defined(__AVX512F__)
#define minimum(a, b) ((vec)_mm512_min_ps(a, b))
#define maximum(a, b) ((vec)_mm512_max_ps(a, b))
#elif VECTOR_BYTES == 32 && defined(__AVX__) && defined(DOUBLE)
#define minimum(a, b) ((vec)_mm256_min_pd(a, b))
#define maximum(a, b) ((vec)_mm256_max_pd(a, b))
#elif VECTOR_BYTES == 32 && defined(__AVX__)
#define minimum(a, b) ((vec)_mm256_min_ps(a, b))
#define maximum(a, b) ((vec)_mm256_max_ps(a, b))
#else
INLINE vec choose(ivec where, vec a, vec b) { return (vec)(((ivec)a & where) | ((ivec)b & ~where)); }
INLINE vec minimum(vec a, vec b) { return choose(a < b, a, b); }
INLINE vec maximum(vec a, vec b) { return choose(a > b, a, b); }
#endif

INLINE real sum_of(const real *x, index count) {
    vec sum = {0};
    index i = 0;
    for (; i + LANES <= count; i += LANES) sum += *(const loose *)(x + i);
    real total = sum_lanes(sum);
    for (; i < count; i++) total += x[i];
    return total;
}

/* exp(x) for x <= 0. With n = round(x / ln 2) and r = x - n ln 2: 2^n times the Taylor polynomial at r. */
INLINE vec exponential(vec x) {
    static const real inverse_factorial[] = {
        1.0,        1.0,         1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
        1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0};
    ivec vanishes = x < (vec){0} + (real)EXP_LOWEST; /* false for NaN, which passes through */
    vec shifted = maximum(x, (vec){0} + (real)EXP_LOWEST) * (real)1.4426950408889634 + (real)ROUNDING;
    vec n = shifted - (real)ROUNDING;
    vec r = (x - n * (real)LN2_HIGH) - n * (real)LN2_LOW;
    vec value = (vec){0} + inverse_factorial[EXP_DEGREE];
    for (int k = EXP_DEGREE - 1; k >= 0; k--) value = value * r + inverse_factorial[k];
    ivec exponent = (ivec)shifted - (ivec)((vec){0} + (real)ROUNDING) + (bits)EXP_BIAS;
    value *= (vec)(exponent << MANTISSA);
    return (vec)((ivec)value & ~vanishes);
}

/* ---------------------------------------------------------------- weights */

/* Where the pairs (j, j), (j, j + 1), ... (j, M - 1) begin in a list of all pairs. */
INLINE index row_of_pairs(index j, index inputs) { return j * inputs - j * (j - 1) / 2; }
INLINE index pairs_of(index inputs) { return inputs * (inputs + 1) / 2; }

/* exp(theta - largest), and the sum of it. */
static double exponentials(const real *theta, real largest, index count, real *out) {
    double total = 0;
    for (index start = 0; start < count; start += 64 * LANES) {
        index stop = smaller(start + 64 * LANES, count), i = start;
        vec sum = {0};
        for (; i + LANES <= stop; i += LANES) {
            vec value = exponential(*(const loose *)(theta + i) - largest);
            *(loose *)(out + i) = value;
            sum += value;
        }
        total += sum_lanes(sum);
        if (i < stop) {
            vec last = (vec){0} + largest;
            for (index k = i; k < stop; k++) last[k - i] = theta[k];
            last = exponential(last - largest);
            for (index k = i; k < stop; k++) out[k] = last[k - i], total += last[k - i];
        }
    }
    return total;
}

static real largest_of(const real *x, index count) {
    vec best = (vec){0} + x[0];
    index i = 0;
    for (; i + LANES <= count; i += LANES) best = maximum(best, *(const loose *)(x + i));
    real found = best[0];
    for (int k = 1; k < LANES; k++) found = best[k] > found ? best[k] : found;
    for (; i < count; i++) found = x[i] > found ? x[i] : found;
    return found;
}

/* The softmax of a node's parameters, before it is divided by its sum; remembers its scale and returns the mass of all
 * pairs. */
static real normalize(const real *theta, index inputs, real *scale, real *out) {
    double singles = 0, total;
    scale[0] = largest_of(theta, inputs * inputs);
    total = exponentials(theta, scale[0], inputs * inputs, out);
    scale[1] = (real)(1 / total);
    for (index j = 0; j < inputs; j++) singles += out[j * (inputs + 1)];
    return (real)((total - singles) / total);
}

/* The coefficients of the pairs (j, l >= j) of a node, for some j: b - c, and the linear ones at l = j.
 *
 * w is the node's matrix, factor what it has to be multiplied by. The matrix is read along rows and columns, so this
 * goes by square blocks that stay in the first-level cache. */
static void prepare_block(const real *w, real factor, index first, index inputs, real *out) {
    index last = smaller(first + BLOCK, inputs);
    real linear[BLOCK], transposed[BLOCK][BLOCK];
    for (index j = first; j < last; j++) linear[j - first] = sum_of(w + j * inputs, j + 1);
    for (index block = first; block < inputs; block += BLOCK) {
        index end = smaller(block + BLOCK, inputs);
        for (index l = block; l < end; l++)
            for (index j = first; j < last; j++) transposed[j - first][l - block] = w[l * inputs + j];
        for (index j = first; j < last; j++) {
            index start = larger(block, j + 1), count = end - start;
            const real *b = w + j * inputs + start, *c = transposed[j - first] + (start - block);
            real *pairs = out + row_of_pairs(j, inputs) + (start - j);
            for (index i = 0; i < count; i++) pairs[i] = factor * (b[i] - c[i]);
            linear[j - first] += sum_of(c, count);
        }
    }
    for (index j = first; j < last; j++) out[row_of_pairs(j, inputs)] = factor * linear[j - first];
}

/* ---------------------------------------------------------------- rows */

/* LANES rows of x side by side, out[column][lane]; rows past the last are zero. */
static void transpose_rows(const strided *x, index stack, index first, index rows, index columns, real *out) {
    index filled = smaller(LANES, rows - first);
    for (index lane = 0; lane < filled; lane++) {
        const real *row = x->data + stack * x->stack + (first + lane) * x->row;
        for (index m = 0; m < columns; m++) out[m * LANES + lane] = row[m * x->column];
    }
    for (index lane = filled; lane < LANES; lane++)
        for (index m = 0; m < columns; m++) out[m * LANES + lane] = 0;
}

/* Add the pairs of rows first to last to the sums of some nodes, for count vectors of rows. The weights of a node are
 * step numbers after those of the one before. */
INLINE void add_pairs(vec (*sums)[NODES], const real *weights, index step, const vec *u, index first, index last,
                      index inputs, int count, int width) {
    vec sum[ROWS][QUAD];
    for (int v = 0; v < count; v++)
        for (int n = 0; n < width; n++) sum[v][n] = (vec){0};
    for (index j = first; j < last; j++)
        for (index l = j; l < inputs; l++, weights++) {
            vec low[ROWS];
            for (int v = 0; v < count; v++) low[v] = minimum(u[v * inputs + j], u[v * inputs + l]);
            for (int n = 0; n < width; n++)
                for (int v = 0; v < count; v++) sum[v][n] += weights[n * step] * low[v];
        }
    for (int v = 0; v < count; v++)
        for (int n = 0; n < width; n++) sums[v][n] += sum[v][n];
}

/* sums[p][n] = sum over the rows of g[row][n] * min(own[row], others[p][row]), for count pairs */
INLINE void sum_minima(const vec *own, const vec *others, index step, const vec *g, index vectors, int count, int width,
                       real (*sums)[QUAD]) {
    vec sum[PAIRS][QUAD];
    for (int p = 0; p < count; p++)
        for (int n = 0; n < QUAD; n++) sum[p][n] = (vec){0};
    for (index v = 0; v < vectors; v++, g += width) {
        vec low[PAIRS];
        for (int p = 0; p < count; p++) low[p] = minimum(own[v], others[p * step + v]);
        for (int n = 0; n < width; n++) {
            vec slope = g[n];
            for (int p = 0; p < count; p++) sum[p][n] += slope * low[p];
        }
    }
    for (int p = 0; p < count; p++) sum_each(sum[p], sums[p]);
}

/* Functions of their own, because a loop whose sums fill the registers has none to spare for what surrounds it. */
#define SUM_MINIMA(name, count, width)                                                                                \
    static __attribute__((noinline)) void name##_##width(const vec *own, const vec *others, index step, const vec *g, \
                                                         index vectors, real (*sums)[QUAD]) {                         \
        sum_minima(own, others, step, g, vectors, count, width, sums);                                                \
    }
SUM_MINIMA(sum_all, PAIRS, 1)
SUM_MINIMA(sum_all, PAIRS, 2)
SUM_MINIMA(sum_all, PAIRS, 3)
SUM_MINIMA(sum_all, PAIRS, 4)
SUM_MINIMA(sum_one, 1, 1)
SUM_MINIMA(sum_one, 1, 2)
SUM_MINIMA(sum_one, 1, 3)
SUM_MINIMA(sum_one, 1, 4)

/* Share the gradient of the features of pairs (j, l >= j) among their smaller members; ties count half for each. */
INLINE void share_gradient(vec *grad, const real *weights, index step, const vec *u, const vec *g, index j,
                           index inputs, int width) {
    vec own = u[j], mine = {0}, gs[NODES];
    for (int n = 0; n < width; n++) gs[n] = g[n], mine += weights[n * step] * gs[n];
    for (index l = j + 1; l < inputs; l++) {
        const real *w = weights + (l - j);
        vec even = {0}, odd = {0}, other = u[l];
        for (int n = 0; n + 1 < width; n += 2) even += w[n * step] * gs[n], odd += w[(n + 1) * step] * gs[n + 1];
        if (width % 2) even += w[(width - 1) * step] * gs[width - 1];
        vec half = (even + odd) * (real)0.5;
        vec signed_half = (vec)((ivec)half & (other > own)) - (vec)((ivec)half & (other < own));
        mine += half + signed_half;
        grad[l] += half - signed_half;
    }
    grad[j] += mine;
}

/* A loop over nodes is unrolled only if their number is known. */
#define BY_QUAD(width, call) \
    switch (width) {         \
    case 1: call(1); break;  \
    case 2: call(2); break;  \
    case 3: call(3); break;  \
    default: call(4); break; \
    }
#define BY_WIDTH(width, call) \
    switch (width) {          \
    case 1: call(1); break;   \
    case 2: call(2); break;   \
    case 3: call(3); break;   \
    case 4: call(4); break;   \
    case 5: call(5); break;   \
    case 6: call(6); break;   \
    case 7: call(7); break;   \
    default: call(8); break;  \
    }

/* ---------------------------------------------------------------- who works on what, in which memory */

typedef struct {
    index stacks, rows, inputs, nodes;
    strided u, g;                       /* inputs, and the gradient of the values */
    const real *theta;                  /* the weights or, with softmax, the parameters */
    int softmax;
    real *scale;                        /* (S, N, 2): maximum of a node's parameters, 1 / sum of exp(theta - maximum) */
    real *new_values, *new_mass;        /* to compute */
    const real *values, *mass, *g_mass; /* computed before; the gradient of the mass may be missing */
    real *grad;                         /* to compute */

    index tiles, group; /* tiles of nodes, and how many are worked on at a time */
    index pairs_space;  /* numbers of the prepared weights, or of the slopes, of a tile */
    index matrix_space; /* numbers of the weight matrices of a tile */
    index shared, own;  /* numbers that the threads of a team share, and that each has for itself */
    int teams, threads; /* stacks side by side, and the threads of each team */
} job;

/* A part of a job: a stack, and the tiles first to last of its nodes. */
typedef struct {
    const job *job;
    index stack, first, last;
    real *shared;
} part;

static job make_job(index stacks, index rows, index inputs, index nodes, int softmax, int threads) {
    job p = {.stacks = stacks, .rows = rows, .inputs = inputs, .nodes = nodes, .softmax = softmax};
    index width = smaller(NODES, nodes);
    double work = 0.5 * (double)stacks * (double)rows * (double)inputs * (double)inputs * (double)nodes;
    if (work < PARALLEL_FROM) threads = 1;
    p.teams = stacks >= threads ? threads : 1;
    p.threads = p.teams > 1 ? 1 : threads;
    p.tiles = parts_of(nodes, NODES);
    p.pairs_space = round_up(pairs_of(inputs) * width);
    p.matrix_space = softmax ? round_up(inputs * inputs * width) : 0;
    p.group = smaller(larger(GROUP / larger(p.pairs_space, 1), 1), larger(p.tiles, 1));
    p.shared = p.group * (p.pairs_space + larger(p.matrix_space, (GRADIENT_ROWS + 2) * NODES)) +
               round_up(inputs * GRADIENT_ROWS);
    p.own = round_up(CHUNK * LANES * (2 * inputs + NODES));
    return p;
}

/* Numbers of workspace that any of the functions needs. */
index EXPORT(choquet_workspace)(index stacks, index rows, index inputs, index nodes, int softmax, int threads) {
    job p = make_job(stacks, rows, inputs, nodes, softmax, threads);
    return p.teams * (p.shared + p.threads * p.own);
}

/* Do a task for every stack: one after the other by all threads, or side by side by one thread each. */
static void for_each_stack(const job *p, void (*task)(const job *, index, real *), real *work) {
    if (p->teams == 1) {
        for (index stack = 0; stack < p->stacks; stack++) task(p, stack, work);
        return;
    }
#pragma omp parallel for num_threads(p->teams) schedule(dynamic)
    for (index stack = 0; stack < p->stacks; stack++) task(p, stack, work + this_thread() * (p->shared + p->own));
}

/* Do a task for every group of tiles of a stack. All threads of the team call it, each with memory of its own. */
static void for_each_group(const job *p, index stack, void (*task)(const part *, real *), real *work) {
#pragma omp parallel num_threads(p->threads) if (p->threads > 1)
    for (index first = 0; first < p->tiles; first += p->group) {
        part at = {p, stack, first, smaller(first + p->group, p->tiles), work};
        task(&at, work + p->shared + this_thread() * p->own);
    }
}

INLINE index width_of(const job *p, index tile) { return smaller(NODES, p->nodes - tile * NODES); }
INLINE index first_node(const part *at) { return at->first * NODES; }
INLINE index last_node(const part *at) { return smaller(at->last * NODES, at->job->nodes); }
INLINE index matrix_of(const part *at, index node) {
    return (at->stack * at->job->nodes + node) * at->job->inputs * at->job->inputs;
}
INLINE real *scale_of(const part *at, index node) { return at->job->scale + 2 * (at->stack * at->job->nodes + node); }
INLINE real *pairs_of_node(const part *at, index node) {
    return at->shared + (node - first_node(at)) * pairs_of(at->job->inputs);
}
INLINE strided tile_of_g(const part *at, index tile) {
    strided g = at->job->g;
    g.data += tile * NODES * g.column;
    return g;
}

/* Prepare the coefficients of the pairs of all nodes of a group. */
static void prepare(const part *at) {
    const job *p = at->job;
    index inputs = p->inputs, blocks = parts_of(inputs, BLOCK), count = last_node(at) - first_node(at);
    real *softmax = at->shared + p->group * p->pairs_space;
    if (p->softmax) {
#pragma omp for schedule(dynamic)
        for (index i = 0; i < count; i++) {
            index node = first_node(at) + i;
            const real *theta = p->theta + matrix_of(at, node);
            real *scale = scale_of(at, node), *out = softmax + i * inputs * inputs;
            if (p->new_mass)
                p->new_mass[at->stack * p->nodes + node] = normalize(theta, inputs, scale, out);
            else
                exponentials(theta, scale[0], inputs * inputs, out);
        }
    }
#pragma omp for schedule(dynamic, 4)
    for (index item = 0; item < count * blocks; item++) {
        index i = item / blocks, node = first_node(at) + i;
        const real *w = p->softmax ? softmax + i * inputs * inputs : p->theta + matrix_of(at, node);
        real factor = p->softmax ? scale_of(at, node)[1] : 1;
        prepare_block(w, factor, item % blocks * BLOCK, inputs, pairs_of_node(at, node));
    }
}

/* ---------------------------------------------------------------- values */

/* The values of a tile's nodes, for a chunk of rows that is laid out in u. */
static void integrate_tile(const part *at, index tile, index start, index vectors, const real *u) {
    const job *p = at->job;
    index inputs = p->inputs, width = width_of(p, tile);
    real *values = p->new_values + (at->stack * p->rows + start) * p->nodes + tile * NODES;
    vec sums[CHUNK][NODES] = {{{0}}};
    for (index j = 0, last; j < inputs; j = last) { /* rows j to last of the pairs are a panel */
        for (last = j + 1; last < inputs; last++)
            if ((row_of_pairs(last + 1, inputs) - row_of_pairs(j, inputs)) * width > PANEL) break;
        for (index v = 0; v < vectors; v += ROWS)
            for (index first = 0; first < width; first += QUAD) {
                const real *panel = pairs_of_node(at, tile * NODES + first) + row_of_pairs(j, inputs);
                const vec *rows = (const vec *)(u + v * inputs * LANES);
                vec (*own)[NODES] = (vec (*)[NODES])&sums[v][first];
#define PAIR_OF_ROWS(w) add_pairs(own, panel, pairs_of(inputs), rows, j, last, inputs, ROWS, w)
#define LAST_ROW(w) add_pairs(own, panel, pairs_of(inputs), rows, j, last, inputs, 1, w)
                if (v + ROWS <= vectors)
                    BY_QUAD(width - first, PAIR_OF_ROWS)
                else
                    BY_QUAD(width - first, LAST_ROW)
            }
    }
    for (index row = 0; row < smaller(vectors * LANES, p->rows - start); row++)
        for (index n = 0; n < width; n++) values[row * p->nodes + n] = sums[row / LANES][n][row % LANES];
}

static void integrate_group(const part *at, real *own) {
    const job *p = at->job;
    prepare(at);
#pragma omp for schedule(dynamic)
    for (index start = 0; start < p->rows; start += CHUNK * LANES) {
        index vectors = parts_of(smaller(p->rows - start, CHUNK * LANES), LANES);
        for (index v = 0; v < vectors; v++)
            transpose_rows(&p->u, at->stack, start + v * LANES, p->rows, p->inputs, own + v * p->inputs * LANES);
        for (index tile = at->first; tile < at->last; tile++) integrate_tile(at, tile, start, vectors, own);
    }
}

static void integrate_stack(const job *p, index stack, real *work) { for_each_group(p, stack, integrate_group, work); }

/* values (S, B, N) of the integrals; with softmax, also the mass (S, N) of their pairs and their scale (S, N, 2). */
void EXPORT(choquet_values)(const real *u, index u_stack, index u_row, index u_column, const real *theta, int softmax,
                            real *values, real *mass, real *scale, index stacks, index rows, index inputs, index nodes,
                            real *work, int threads) {
    job p = make_job(stacks, rows, inputs, nodes, softmax, threads);
    p.u = (strided){u, u_stack, u_row, u_column};
    p.theta = theta, p.scale = scale;
    p.new_values = values, p.new_mass = mass;
    for_each_stack(&p, integrate_stack, work);
}

/* ---------------------------------------------------------------- gradient of the inputs */

/* The gradient of a vector of rows, from all tiles of a group; added to that of the groups before. */
static void share_rows(const part *at, index row, real *own) {
    const job *p = at->job;
    index inputs = p->inputs;
    vec *u = (vec *)own, *grad = u + inputs, *g = grad + inputs;
    real *out = p->grad + (at->stack * p->rows + row) * inputs;
    transpose_rows(&p->u, at->stack, row, p->rows, inputs, (real *)u);
    for (index j = 0; j < inputs; j++) grad[j] = (vec){0};
    for (index tile = at->first; tile < at->last; tile++) {
        index width = width_of(p, tile);
        strided of_tile = tile_of_g(at, tile);
        transpose_rows(&of_tile, at->stack, row, p->rows, width, (real *)g);
        for (index j = 0; j < inputs; j++) {
            const real *panel = pairs_of_node(at, tile * NODES) + row_of_pairs(j, inputs);
#define CALL(w) share_gradient(grad, panel, pairs_of(inputs), u, g, j, inputs, w)
            BY_WIDTH(width, CALL)
#undef CALL
        }
    }
    for (index lane = 0; lane < smaller(LANES, p->rows - row); lane++, out += inputs)
        for (index j = 0; j < inputs; j++) out[j] = at->first ? out[j] + grad[j][lane] : grad[j][lane];
}

static void share_group(const part *at, real *own) {
    prepare(at);
#pragma omp for schedule(dynamic, 4)
    for (index row = 0; row < at->job->rows; row += LANES) share_rows(at, row, own);
}

static void share_stack(const job *p, index stack, real *work) { for_each_group(p, stack, share_group, work); }

/* grad (S, B, M) of the inputs, from the gradient g (S, B, N) of the values; scale as choquet_values left it. */
void EXPORT(choquet_input_gradient)(const real *u, index u_stack, index u_row, index u_column, const real *theta,
                                    int softmax, real *scale, const real *g, index g_stack, index g_row,
                                    index g_column, real *grad, index stacks, index rows, index inputs, index nodes,
                                    real *work, int threads) {
    job p = make_job(stacks, rows, inputs, nodes, softmax, threads);
    p.u = (strided){u, u_stack, u_row, u_column}, p.g = (strided){g, g_stack, g_row, g_column};
    p.theta = theta, p.scale = scale, p.grad = grad;
    for_each_stack(&p, share_stack, work);
}

/* ---------------------------------------------------------------- gradient of the weights */

/* Slopes of the pairs (j, l >= j) for a tile: sums over the rows of g * min(u_j, u_l), added to those of rows before.
 * by_input is (inputs, batch), by_node (quads, vectors, nodes of the quad, LANES). */
static void slopes_of_row(const real *by_input, index batch, const real *by_node, index j, index inputs, index width,
                          int first_time, real *slopes) {
    index vectors = batch / LANES;
    const vec *own = (const vec *)(by_input + j * batch);
    for (index l = j, count; l < inputs; l += count, slopes += count) {
        const vec *others = (const vec *)(by_input + l * batch);
        count = inputs - l < PAIRS ? 1 : PAIRS;
        for (index first = 0; first < width; first += QUAD) {
            const vec *g = (const vec *)(by_node + first * batch);
            index nodes = smaller(QUAD, width - first);
            real sums[PAIRS][QUAD];
#define ALL_PAIRS(w) sum_all_##w(own, others, vectors, g, vectors, sums)
#define ONE_PAIR(w) sum_one_##w(own, others, vectors, g, vectors, sums)
            if (count == PAIRS)
                BY_QUAD(nodes, ALL_PAIRS)
            else
                BY_QUAD(nodes, ONE_PAIR)
            for (index p = 0; p < count; p++)
                for (index n = 0; n < nodes; n++) {
                    real *slope = slopes + (first + n) * pairs_of(inputs) + p;
                    *slope = first_time ? sums[p][n] : *slope + sums[p][n];
                }
        }
    }
}

/* Slopes of all pairs of a group's tiles for some rows of the batch. */
static void slopes_of_rows(const part *at, index start, real *by_input, real *by_node, real *own) {
    const job *p = at->job;
    index inputs = p->inputs, rows = p->rows;
    index batch = parts_of(smaller(rows - start, GRADIENT_ROWS), LANES) * LANES;
#pragma omp for schedule(static)
    for (index row = 0; row < batch; row += LANES) {
        transpose_rows(&p->u, at->stack, start + row, rows, inputs, own);
        for (index j = 0; j < inputs; j++) *(vec *)(by_input + j * batch + row) = *(const vec *)(own + j * LANES);
        for (index tile = at->first; tile < at->last; tile++) {
            strided of_quad = tile_of_g(at, tile);
            real *out = by_node + (tile - at->first) * NODES * batch;
            for (index left = width_of(p, tile); left > 0; left -= QUAD) {
                index nodes = smaller(left, QUAD);
                transpose_rows(&of_quad, at->stack, start + row, rows, nodes, out + row * nodes);
                of_quad.data += nodes * of_quad.column, out += QUAD * batch;
            }
        }
    }
#pragma omp for schedule(dynamic, 4)
    for (index item = 0; item < (at->last - at->first) * inputs; item++) {
        index tile = at->first + item / inputs, j = item % inputs, width = width_of(p, tile);
        slopes_of_row(by_input, batch, by_node + (tile - at->first) * NODES * batch, j, inputs, width, start == 0,
                      pairs_of_node(at, tile * NODES) + row_of_pairs(j, inputs));
    }
}

/* The mean slope of each node of a tile under its weights, which is the gradient of the value times the value: the
 * integral is linear in the weights. So is one minus the mass. */
static void mean_slopes(const part *at, index tile, real *means) {
    const job *p = at->job;
    index width = width_of(p, tile), node = at->stack * p->nodes + tile * NODES;
    const real *values = p->values + at->stack * p->rows * p->nodes + tile * NODES;
    const real *g = p->g.data + at->stack * p->g.stack + tile * NODES * p->g.column;
    double sums[NODES] = {0};
    for (index b = 0; b < p->rows; b++)
        for (index n = 0; n < width; n++)
            sums[n] += (double)g[b * p->g.row + n * p->g.column] * values[b * p->nodes + n];
    for (index n = 0; n < width; n++)
        means[n] = (real)(sums[n] + (p->g_mass ? p->g_mass[node + n] * ((double)p->mass[node + n] - 1) : 0));
}

/* out = weight * (slope - shift); the weight is the softmax of theta or, where there is no scale, one. */
static void weigh(const real *theta, const real *scale, const real *slopes, real shift, index count, real *out) {
    index i = 0;
    if (!scale) {
        for (; i < count; i++) out[i] = slopes[i] - shift;
        return;
    }
    for (; i + LANES <= count; i += LANES) {
        vec weight = exponential(*(const loose *)(theta + i) - scale[0]) * scale[1];
        *(loose *)(out + i) = weight * (*(const loose *)(slopes + i) - shift);
    }
    if (i < count) {
        vec weight = (vec){0} + scale[0];
        for (index k = i; k < count; k++) weight[k - i] = theta[k];
        weight = exponential(weight - scale[0]) * scale[1];
        for (index k = i; k < count; k++) out[k] = weight[k - i] * (slopes[k] - shift);
    }
}

/* From the slopes of a node's pairs to some rows l of the gradient of its weights: maxima of the pairs (j < l), the
 * input l alone, minima of the pairs (l, j > l).
 *
 * d min = slope, d max = slope_j + slope_l - slope. By Proposition 1 the gradient of a parameter is its weight times
 * its slope less the mean slope. */
static void finish_block(const real *theta, const real *scale, const real *slopes, index first, index inputs, real mean,
                         real mass_slope, real *grad, real *own) {
    index last = smaller(first + BLOCK, inputs);
    real singles[BLOCK];
    for (index l = first; l < last; l++) singles[l - first] = slopes[row_of_pairs(l, inputs)];
    for (index j = 0; j < last; j++) {
        const real *low = slopes + (row_of_pairs(j, inputs) - j);
        for (index l = larger(first, j + 1); l < last; l++)
            own[(l - first) * inputs + j] = low[j] + singles[l - first] - low[l];
    }
    for (index l = first; l < last; l++) {
        const real *low = slopes + (row_of_pairs(l, inputs) - l);
        real *row = own + (l - first) * inputs;
        row[l] = low[l] - mass_slope;
        for (index j = l + 1; j < inputs; j++) row[j] = low[j];
    }
    weigh(theta + first * inputs, scale, own, mean, (last - first) * inputs, grad + first * inputs);
}

/* The gradients of a group's nodes from their slopes. */
static void finish(const part *at, real *means, real *own) {
    const job *p = at->job;
    index inputs = p->inputs, blocks = parts_of(inputs, BLOCK), count = last_node(at) - first_node(at);
    if (p->softmax) {
#pragma omp for schedule(static)
        for (index tile = at->first; tile < at->last; tile++)
            mean_slopes(at, tile, means + (tile - at->first) * NODES);
    }
#pragma omp for schedule(dynamic, 4)
    for (index item = 0; item < count * blocks; item++) {
        index i = item / blocks, node = first_node(at) + i;
        finish_block(p->theta + matrix_of(at, node), p->softmax ? scale_of(at, node) : NULL, pairs_of_node(at, node),
                     item % blocks * BLOCK, inputs, p->softmax ? means[i] : 0,
                     p->softmax && p->g_mass ? p->g_mass[at->stack * p->nodes + node] : 0,
                     p->grad + matrix_of(at, node), own);
    }
}

static void slope_group(const part *at, real *own) {
    const job *p = at->job;
    real *by_input = at->shared + p->group * p->pairs_space;
    real *by_node = by_input + round_up(p->inputs * GRADIENT_ROWS);
    for (index start = 0; start < larger(p->rows, 1); start += GRADIENT_ROWS)
        slopes_of_rows(at, start, by_input, by_node, own);
    finish(at, by_node + p->group * GRADIENT_ROWS * NODES, own);
}

static void slope_stack(const job *p, index stack, real *work) { for_each_group(p, stack, slope_group, work); }

/* grad (S, N, M, M) of the weights; with softmax, of the parameters, to which the gradient of the mass also flows. */
void EXPORT(choquet_weight_gradient)(const real *u, index u_stack, index u_row, index u_column, const real *theta,
                                     int softmax, real *scale, const real *values, const real *mass, const real *g,
                                     index g_stack, index g_row, index g_column, const real *g_mass, real *grad,
                                     index stacks, index rows, index inputs, index nodes, real *work, int threads) {
    job p = make_job(stacks, rows, inputs, nodes, softmax, threads);
    p.u = (strided){u, u_stack, u_row, u_column}, p.g = (strided){g, g_stack, g_row, g_column};
    p.theta = theta, p.scale = scale;
    p.values = values, p.mass = mass, p.g_mass = g_mass, p.grad = grad;
    for_each_stack(&p, slope_stack, work);
}
