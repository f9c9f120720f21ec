/* The beta distribution: its cumulative distribution, good to 7e-6 for parameters from 0.01 to 1e9. */
#include "row.h"

#define BETA_TINY 1e-300
#define BETA_STEPS 300
#define BETA_PRECISION 1e-14
#define BETA_LARGE 20000.0

static double away_from_zero(double value) { return fabs(value) < BETA_TINY ? BETA_TINY : value; }

/* Return the logarithm of the gamma function of a positive number (Lanczos), good to 14 digits. */
static double log_gamma(double x) {
    static const double c[9] = {0.99999999999980993,  676.5203681218851,     -1259.1392167224028,
                                771.32342877765313,   -176.61502916214059,   12.507343278686905,
                                -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
    double z = x - 1.0, series = c[0], t = z + 7.0 + 0.5;
    for (int k = 1; k < 9; k++) series += c[k] / (z + k);
    return 0.5 * log(2.0 * M_PI) + (z + 0.5) * log(t) - t + log(series);
}

/* Return Q(z) / phi(z) for z of 0 and more; fitted over 0 to 10,000 to a relative error of 1.1e-9. */
static double mills_ratio(double z) {
    static const double top[6] = {0.0033315286809597893, 0.03912353209862956, 0.22100990682699798,
                                  0.7244148619124923,    1.3759453335931793,  1.2533141360165734};
    static const double below[6] = {0.003331528684763353, 0.039123529476814516, 0.22434173124348017,
                                    0.7635256553646191,   1.590574292419883,    1.8957300120467193};
    double a = 0.0, b = 0.0;
    for (int k = 0; k < 6; k++) {
        a = a * z + top[k];
        b = b * z + below[k];
    }
    return a / (b * z + 1.0);
}

/* Return the continued fraction of the incomplete beta function (Lentz). */
static double beta_fraction(double x, double a, double b) {
    double c = 1.0, d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0)), h = d;
    for (int m = 1; m < BETA_STEPS; m++) {
        double step = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m));
        d = 1.0 / away_from_zero(1.0 + step * d);
        c = away_from_zero(1.0 + step / c);
        h *= d * c;
        step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + step * d);
        c = away_from_zero(1.0 + step / c);
        h *= d * c;
        if (fabs(d * c - 1.0) < BETA_PRECISION) break;
    }
    return h;
}

/* Return the probability up to x for large parameters, by Temme's expansion: a normal tail and one correction. */
static double beta_normal_tail(double x, double a, double b) {
    double n = a + b, mean = a / n, away = x - mean, deviation = sqrt(mean * (1.0 - mean));
    double exponent = mean * log1p(away / mean) + (1.0 - mean) * log1p(-away / (1.0 - mean));
    double root = copysign(sqrt(more_of(-2.0 * exponent, 0.0)), away);
    int near = fabs(away) < 1e-4 * deviation;
    double correction = near ? (1.0 - 2.0 * mean) / (3.0 * deviation) : 1.0 / root - deviation / away;
    double z = clip(root * sqrt(n), -1e4, 1e4), density = exp(-0.5 * z * z) / sqrt(2.0 * M_PI);
    double tail = density * mills_ratio(fabs(z));
    return (z < 0 ? tail : 1.0 - tail) + density * correction / sqrt(n);
}

/* Return the regularized incomplete beta function: the probability of a value up to x. */
static double beta_distribution(double x, double alpha, double beta) {
    if (!(alpha > 0 && beta > 0)) return 0.0;
    if (!(x > 0 && x < 1)) return x >= 1 ? 1.0 : 0.0;
    double a = alpha, b = beta;
    int swapped = x > (a + 1.0) / (a + b + 2.0);
    if (swapped) {
        a = beta;
        b = alpha;
        x = 1.0 - x;
    }
    double tail;
    if (less_of(a, b) > BETA_LARGE)
        tail = beta_normal_tail(x, a, b);
    else
        tail = exp(less_of(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x), 700.0)) *
               beta_fraction(x, a, b) / a;
    return clip(swapped ? 1.0 - tail : tail, 0.0, 1.0);
}
