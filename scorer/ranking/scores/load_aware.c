typedef struct {
    double weights[R], units[R];
    double dominant_weight, expiration_s;
    int32_t statistic, missing, by_prod, with_system, rounding;
    uint8_t used[R]; /* cpu and memory, and what has a weight */
} LoadAware;

/* said: what is left by resource, in percent. */
static inline double load_aware(const Row *m, const More *c, const Query *q, const LoadAware *p, const double *x,
                                double *said) {
    double sum = 0.0, total = p->dominant_weight, low = 100.0;
    for (int r = 0; r < R; r++) {
        if (!p->used[r]) continue;
        double usage;
        if (p->by_prod && q->priority_class == PROD)
            usage = c->prod[r] + (p->with_system ? or_zero(c->system[r]) : 0.0);
        else
            usage = statistic_of(m, c, r, p->statistic, p->missing);
        double used = usage + q->expected[r], limit = m->allocatable[r];
        if (p->rounding) {
            used = rint(used * p->units[r]);
            limit = rint(limit * p->units[r]);
        }
        double left = percent_left(used, limit, p->rounding);
        if (said) said[r] = left;
        sum += left * p->weights[r];
        total += p->weights[r];
        low = less_of(left, low);
    }
    double score = (sum + p->dominant_weight * low) / total;
    if (p->rounding) score = floor(score + 1e-9);
    int known = m->has_data && q->now - m->seen_at < p->expiration_s;
    return known || q->requests_alone ? score : 0.0;
}
SCORE(load_aware, LoadAware)
