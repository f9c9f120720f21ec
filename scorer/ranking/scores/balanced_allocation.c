enum { FORM_1_21, FORM_1_22, FORM_1_36 };

/* Return 0-100 from the shares of n resources, as up to v1.21: 0 as soon as one is 1 or more. */
static inline double legacy_balance(const double *share, int n) {
    double mean = 0.0, variance = 0.0;
    for (int k = 0; k < n; k++) {
        if (share[k] >= 1.0) return 0.0;
        mean += share[k] / n;
    }
    if (n == 2) return (1.0 - fabs(share[0] - share[1])) * 100.0;
    for (int k = 0; k < n; k++) variance += (share[k] - mean) * (share[k] - mean) / n;
    return (1.0 - variance) * 100.0;
}

/* Return (1 - std) * 100 of n shares, each at most 1; of two the std is half their distance, exactly. */
static inline double balance(const double *share, int n) {
    double mean = 0.0, variance = 0.0, high = -INFINITY, low = INFINITY;
    for (int k = 0; k < n; k++) {
        double value = least(share[k], 1.0);
        mean += value;
        high = more_of(high, value);
        low = less_of(low, value);
    }
    if (!n) return 100.0;
    mean /= n;
    for (int k = 0; k < n; k++) {
        double apart = least(share[k], 1.0) - mean;
        variance += apart * apart;
    }
    return (1.0 - (n == 2 ? (high - low) / 2.0 : sqrt(variance / n))) * 100.0;
}

/* said: the shares with the instance. */
static inline double balanced_allocation(const Row *m, const More *c, const Query *q, const Allocation *p,
                                         const double *x, double *said) {
    double after[R], before[R], score;
    int n = 0, rows = 0, unknown = 0;
    say_shares(m, c, q, p, said);
    for (int r = 0; r < R; r++) {
        if (!(weight_of(q, p, r) > 0)) continue;
        rows++;
        double limit = whole(m->allocatable[r], p, r), there = allocated_of(m, c, p, r);
        int counts = m->allocatable[r] > 0;
        if (!counts && p->form != FORM_1_21) continue;
        after[n] = counts ? whole(there + added_by(q, p, r), p, r) / limit : 1.0;
        before[n] = whole(there, p, r) / limit;
        unknown |= isnan(after[n]);
        n++;
    }
    if (unknown) return 0.0;
    if (p->form == FORM_1_21) {
        score = rows > 1 ? legacy_balance(after, n) : 100.0;
    } else {
        score = balance(after, n);
        if (p->rounding) score = trunc(score);
        if (p->form == FORM_1_36) {
            double without = balance(before, n);
            double change = (50.0 + score - (p->rounding ? trunc(without) : without)) / 2.0;
            score = 50.0 + (p->rounding ? trunc(change) : change);
        }
    }
    return clip(or_zero(p->rounding ? trunc(score) : score), 0.0, 100.0);
}
SCORE(balanced_allocation, Allocation)
