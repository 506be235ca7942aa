"""The functions of PostgreSQL, known by their names: the one list of them. Pure.

``BUILTIN`` give the same result for the same rows. From pg_proc of PostgreSQL 18: what is immutable
or stable and is called in queries. Stable ones read settings that the state database pins: the time
zone, DateStyle. Not those that read the clock, the session or the catalog, nor any_value(), which
may give any.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Names that are written one behind the other."""
    return frozenset(text.split())


BUILTIN = words(
    """
    abbrev abs acos acosd acosh age area array array_agg array_append array_cat array_dims
    array_fill array_length array_lower array_ndims array_position array_positions array_prepend
    array_remove array_replace
    array_reverse array_sort array_to_json array_to_string array_to_tsvector array_upper ascii
    asin asind asinh atan atan2 atan2d atand atanh avg bit_and bit_count bit_length bit_or
    bit_xor bool_and bool_or box cardinality casefold cbrt ceil ceiling center char_length
    character_length chr circle coalesce concat concat_ws convert convert_from convert_to corr
    cos cosd cosh cot cotd count covar_pop covar_samp crc32 crc32c cume_dist date date_add
    date_bin date_part date_subtract date_trunc datemultirange daterange decode degrees
    dense_rank diagonal diameter div encode enum_first enum_last enum_range erf erfc every exp
    factorial first_value floor format gamma gcd generate_series generate_subscripts greatest
    grouping height host hostmask initcap int4multirange int4range int8multirange int8range
    isclosed isempty isfinite ishorizontal isopen isparallel isperp isvertical json_agg
    json_agg_strict json_array_elements json_array_elements_text json_array_length
    json_build_array json_build_object json_each json_each_text json_object json_object_agg
    json_object_agg_strict json_object_agg_unique json_object_agg_unique_strict json_object_keys
    json_strip_nulls json_to_record json_to_recordset json_to_tsvector json_typeof jsonb_agg
    jsonb_agg_strict jsonb_array_elements jsonb_array_elements_text jsonb_array_length
    jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_insert jsonb_object
    jsonb_object_agg jsonb_object_agg_strict jsonb_object_agg_unique
    jsonb_object_agg_unique_strict jsonb_object_keys jsonb_path_exists jsonb_path_exists_tz
    jsonb_path_match jsonb_path_match_tz jsonb_path_query jsonb_path_query_array
    jsonb_path_query_array_tz jsonb_path_query_first jsonb_path_query_first_tz
    jsonb_path_query_tz jsonb_populate_record jsonb_populate_record_valid
    jsonb_populate_recordset jsonb_pretty jsonb_set jsonb_set_lax jsonb_strip_nulls
    jsonb_to_record jsonb_to_recordset jsonb_to_tsvector jsonb_typeof justify_days justify_hours
    justify_interval lag last_value lcm lead least left length lgamma line ln log log10 lower
    lower_inc lower_inf lpad lseg ltrim macaddr8_set7bit make_date make_interval make_time
    make_timestamp make_timestamptz masklen max md5 min min_scale mod mode multirange netmask
    network npoints nth_value ntile nullif num_nonnulls num_nulls nummultirange numrange
    octet_length parse_ident path pclose percent_rank percentile_cont percentile_disc
    phraseto_tsquery pi plainto_tsquery point polygon popen pow power quote_ident quote_literal
    quote_nullable radians radius range_agg range_intersect_agg range_merge rank regexp_count
    regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
    regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2
    regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right round row row_number
    row_to_json rpad rtrim scale setweight sha224 sha256 sha384 sha512 sign sin sind sinh slope
    split_part sqrt starts_with stddev stddev_pop stddev_samp string_agg string_to_array
    string_to_table strpos substr substring sum tan tand tanh text timezone to_ascii to_bin
    to_char to_date to_hex to_json to_jsonb to_number to_oct to_timestamp to_tsquery to_tsvector
    translate trim trim_array trim_scale trunc ts_delete ts_filter ts_headline ts_lexize ts_rank
    ts_rank_cd tsmultirange tsquery_phrase tsrange tstzmultirange tstzrange tsvector_to_array
    unicode_assigned unistr unnest upper upper_inc upper_inf uuid_extract_timestamp
    uuid_extract_version var_pop var_samp variance websearch_to_tsquery width width_bucket xml
    xml_is_well_formed xml_is_well_formed_content xml_is_well_formed_document xmlagg xmlcomment
    xmlelement xmltext xmlvalidate xpath xpath_exists
    """
)
AGGREGATES = words(
    """
    any_value array_agg avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp
    every json_agg json_agg_strict json_object_agg json_object_agg_strict json_object_agg_unique
    json_object_agg_unique_strict jsonb_agg jsonb_agg_strict jsonb_object_agg
    jsonb_object_agg_strict jsonb_object_agg_unique jsonb_object_agg_unique_strict max min mode
    percentile_cont percentile_disc range_agg range_intersect_agg regr_avgx regr_avgy regr_count
    regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy stddev stddev_pop stddev_samp
    string_agg sum var_pop var_samp variance xmlagg
    """
)
ROWS = words(
    """
    generate_series generate_subscripts json_array_elements json_array_elements_text json_each
    json_each_text json_object_keys json_populate_recordset json_to_recordset
    jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys
    jsonb_path_query jsonb_path_query_tz jsonb_populate_recordset jsonb_to_recordset
    regexp_matches regexp_split_to_table string_to_table unnest
    """
)
VOLATILE = words(
    """
    array_sample array_shuffle clock_timestamp currval dblink gen_random_uuid lastval nextval
    pg_advisory_lock pg_backend_pid pg_current_wal_lsn pg_current_xact_id pg_notify pg_sleep random
    random_normal set_config setseed setval statement_timestamp timeofday txid_current
    txid_current_snapshot uuid_generate_v4 uuidv4 uuidv7
    """
)
CLOCK = words("now transaction_timestamp current_timestamp")
LOCAL_CLOCK = words("current_date current_time localtime localtimestamp")
"""The clock as the session's time zone shows it."""
