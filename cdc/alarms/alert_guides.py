"""What to do about alarms of alerts on rows."""

from __future__ import annotations

from typing import Final

from cdc.alarms.alarm import Guide

STOPPED: Final = Guide(
    "Nobody sends the messages of an alert on rows. The changes that it has not told are not lost "
    "yet: of a table they wait in Kafka for as long as its topic keeps records, of a view for "
    "twice as much as `apply.keep_changes` and `apply.keep_changes_s` say.",
    (
        "No `headwater serve` runs, or none that has the alert in its configuration.",
        "The condition does not fit the table or the view any more: a column that it compares was "
        "dropped or renamed, or the table has lost `REPLICA IDENTITY FULL`.",
        "What the alert was to read next is gone: deleted in Kafka, or with a generation of the "
        "view.",
        "1,000 of its messages wait as dead letters.",
    ),
    (
        "`headwater lag`: what blocks the alert.",
        "`headwater check`: whether the condition fits.",
        "The log of serve: `row_alert_stopped`, `row_alert_waits` and `row_alert_held` name the "
        "cause.",
    ),
    (
        "Start `headwater serve` if it does not run; the alert goes on where it was.",
        "Correct the condition in the configuration and restart `headwater serve`, or give the "
        "table back what it has lost: serve looks once a minute.",
        "If changes are gone, give the alert another name, and find out otherwise what it has "
        "missed.",
        "Mend the receiver, then run `headwater dead-letters retry alerts.NAME`, or `headwater "
        "dead-letters discard alerts.NAME --all`.",
    ),
)
WAITS: Final = Guide(
    "A change that an alert on rows may have to tell has been there for more than `alerts.lag_s` "
    "seconds, and its message was not delivered; or messages were given up and wait as dead "
    "letters. Later messages of the same keys wait behind one that is tried again.",
    (
        "The receiver is away, hangs or refuses. Each answer but 2xx is a refusal.",
        "A message was refused for longer than `give_up_after`, or its answer was 410.",
        "Nobody can tell whether a change meets the condition, for the row before it is not known.",
        "More changes come than are looked at, or the receiver is slow.",
    ),
    (
        "The log of serve: `row_alert_not_sent` has the reason of each attempt.",
        "`headwater lag`: how many messages wait, and when the last one was delivered.",
        "`headwater dead-letters list alerts.NAME`: what was given up, and why.",
    ),
    (
        "Mend the receiver: messages are sent again by themselves, within five minutes.",
        "Then run `headwater dead-letters retry alerts.NAME`.",
        "What nobody needs: `headwater dead-letters discard alerts.NAME --key KEY`.",
        "If the receiver is slow, raise `at_once` of the alert.",
    ),
)
