#define WHOLE (1.0 - 1e-9) /* from this quotient on a deviation counts as large as the capacity */

typedef struct {
    double margin, sensitivity;
    int32_t by_requests, reduced, rounding;
    uint8_t used[R];
} LoadVariationRisk;

/* Return the part of the standard deviation in twice the risk. */
static inline double spread_of(double sigma, const LoadVariationRisk *p) {
    sigma = clip(sigma, 0.0, 1.0);
    if (p->margin == 1.0 && p->sensitivity == 1.0) return sigma;
    if (p->sensitivity == 0)
        sigma = sigma >= WHOLE ? 1.0 : 0.0;
    else if (p->sensitivity != 1.0)
        sigma = pow(sigma, 1.0 / p->sensitivity);
    return clip(sigma * p->margin, 0.0, 1.0);
}

/* said: the risk by resource; NaN without data. */
static inline double load_variation_risk(const Row *m, const More *c, const Query *q, const LoadVariationRisk *p,
                                         const double *x, double *said) {
    const double *added = p->by_requests ? q->amounts : q->expected;
    double worst = -INFINITY, unit = p->reduced ? 1.0 : 0.5;
    for (int r = 0; r < R; r++) {
        if (!p->used[r]) continue;
        double mu, sigma = or_zero(m->deviation[r]), limit = m->allocatable[r];
        if (limit <= 0 && isfinite(m->mean[r])) {
            mu = INFINITY;
            sigma = 1.0;
        } else {
            if (p->rounding) /* divides as the peer does: a half must stay a half */
                mu = limit > 0 ? (m->mean[r] + added[r]) / limit : NAN;
            else
                mu = m->inverse[r] * added[r] + m->utilization[r];
            sigma = p->reduced ? more_of(sigma, 0.0) : spread_of(sigma, p);
        }
        mu = largest(mu, 0.0); /* a use below 0 is no machine's */
        double risk = isnan(mu) ? -INFINITY : p->reduced ? less_of(mu + sigma, 1.0) : less_of(mu, 1.0) + sigma;
        if (said) said[r] = isfinite(risk) ? unit * risk : NAN;
        worst = more_of(worst, risk);
    }
    double score = worst > -INFINITY ? 100.0 - 100.0 * unit * worst : 0.0;
    return p->rounding ? round_half_away(score) : score;
}
SCORE(load_variation_risk, LoadVariationRisk)
