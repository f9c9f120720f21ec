/* Return the line through the points at x: constant before the first and after the last. */
static inline double broken_line(const Allocation *p, double x) {
    int last = p->points - 1, k = 0;
    if (x <= p->utilization[0]) return p->score[0];
    if (x > p->utilization[last]) return p->score[last];
    while (k < last - 1 && x > p->utilization[k + 1]) k++;
    double width = p->utilization[k + 1] - p->utilization[k], rise = p->score[k + 1] - p->score[k];
    if (p->rounding) return p->score[k] + trunc(rise * (x - p->utilization[k]) / width);
    return p->score[k] + rise / width * (x - p->utilization[k]);
}

/* said: the shares with the instance. */
static inline double requested_to_capacity_ratio(const Row *m, const More *c, const Query *q, const Allocation *p,
                                                 const double *x, double *said) {
    double values[R];
    uint8_t counts[R];
    for (int r = 0; r < R; r++) {
        double limit = whole(m->allocatable[r], p, r);
        double after = whole(allocated_of(m, c, p, r) + added_by(q, p, r), p, r);
        double utilization = after <= limit ? percent_of(after, limit, p->rounding) : 100.0;
        values[r] = broken_line(p, isnan(utilization) ? 100.0 : utilization);
        counts[r] = values[r] > 0 && limit > 0;
    }
    say_shares(m, c, q, p, said);
    double mean = mean_by_weight(values, counts, q, p, 0);
    return p->rounding ? round_half_away(mean) : mean;
}
SCORE(requested_to_capacity_ratio, Allocation)
