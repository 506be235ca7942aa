"""``avg`` of exact numbers as PostgreSQL gives it, in Spark's words. Pure.

PostgreSQL divides the sum by the count to a scale that it chooses from the two (``numeric_div``,
``select_div_scale``): 16 digits after the first group of four that is not zero, and no fewer than
the sum has. No decimal of Spark holds all such values, so the result is the text that PostgreSQL
would show, and is cast or rounded from there.
"""

from __future__ import annotations


def divided(total: str, count: str, scale: int) -> str:
    """Spark SQL: the text of ``total / count``, NULL when ``count`` is 0.

    ``total`` is a decimal with ``scale``, ``count`` a bigint; both may be aggregates.
    """
    # Each step names what the next one uses: SQL has no other way to name a value inside of one.
    steps = [
        # d, dn: the digits of both without leading zeros; e: the exponent of the first one of d.
        "named_struct('s', r.s, 'n', r.n, 'dn', CAST(r.n AS string), "
        "'d', trim(LEADING '0' FROM replace(CAST(abs(r.s) AS string), '.', '')))",
        f"named_struct('s', r.s, 'n', r.n, 'd', r.d, 'dn', r.dn, 'e', length(r.d) - 1 - {scale})",
        # w: the exponent in groups of four digits.
        "named_struct('s', r.s, 'n', r.n, 'd', r.d, 'dn', r.dn, 'e', r.e, "
        "'w', CASE WHEN r.s = 0 THEN 0 ELSE CAST(floor(r.e / 4.0D) AS int) END, "
        "'wn', CAST((length(r.dn) - 1) DIV 4 AS int))",
        # f: the first group of four.
        "named_struct('s', r.s, 'n', r.n, 'd', r.d, 'w', r.w, 'wn', r.wn, "
        "'f', CASE WHEN r.s = 0 THEN 0 ELSE CAST(rpad(substring(r.d, 1, r.e - 4 * r.w + 1), "
        "r.e - 4 * r.w + 1, '0') AS int) END, "
        "'fn', CAST(substring(r.dn, 1, (length(r.dn) - 1) % 4 + 1) AS int))",
        # p: the scale of the result.
        "named_struct('s', r.s, 'n', CAST(r.n AS decimal(19,0)), 'd', r.d, 'p', "
        "greatest(16 - 4 * (r.w - r.wn - CASE WHEN r.f <= r.fn THEN 1 ELSE 0 END), "
        f"{scale}, 0))",
        # t: the sum as an integer of that scale.
        "named_struct('s', r.s, 'n', r.n, 'p', r.p, "
        f"'t', CAST(concat('0', r.d, repeat('0', r.p - {scale})) AS decimal(38,0)))",
        # q: the quotient, half away from zero.
        "named_struct('s', r.s, 'p', r.p, 'q', CAST(CAST((r.t - r.t % r.n) / r.n "
        "AS decimal(38,0)) + CASE WHEN 2 * (r.t % r.n) >= r.n THEN 1 ELSE 0 END AS string))",
        "named_struct('s', r.s, 'p', r.p, 'q', lpad(r.q, greatest(r.p + 1, length(r.q)), '0'))",
        "concat(CASE WHEN r.s < 0 AND translate(r.q, '0', '') <> '' THEN '-' ELSE '' END, "
        "substring(r.q, 1, length(r.q) - r.p), "
        "CASE WHEN r.p > 0 THEN concat('.', right(r.q, r.p)) ELSE '' END)",
    ]
    rows = f"filter(array(named_struct('s', {total}, 'n', {count})), r -> r.n > 0)"
    for step in steps:
        rows = f"transform({rows}, r -> {step})"
    return f"try_element_at({rows}, 1)"
