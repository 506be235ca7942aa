"""``[events.registry]``: where the schemas of records are kept that do not carry them."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, ConfigDict, Field, SecretStr, model_validator

from cdc.config.dotted import flat
from cdc.config.stores import Section
from cdc.config.values import RegistryUrl
from cdc.events.formats.subjects import TOPIC_NAME, Strategy

_DOTTED: Final = ("subject.name.strategy", "auto.register.schemas")
NONE: Final = SecretStr("")


def _without_login(value: str) -> str:
    """Messages show the URL."""
    if "@" in urlsplit(value).netloc:
        raise ValueError("holds a login: set username and password of [events.registry] instead")
    return value.rstrip("/")


class Registry(Section):
    """A registry that speaks Confluent's API: Confluent's own, Karapace, Apicurio, Redpanda."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    url: Annotated[RegistryUrl, AfterValidator(_without_login)]
    username: str = ""
    password: SecretStr = NONE
    ssl_ca_location: str = ""
    """PEM of who signed the registry's certificate; else whom the system trusts."""
    strategy: Strategy = Field(default=TOPIC_NAME, alias="subject.name.strategy")
    auto_register: bool = Field(default=True, alias="auto.register.schemas")
    """Whether capture registers the schemas that a subject lacks."""

    @model_validator(mode="before")
    @classmethod
    def _names_have_dots(cls, value: Any) -> Any:
        return flat(value, _DOTTED) if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _a_login_is_whole(self) -> Registry:
        if bool(self.username) != bool(self.password.get_secret_value()):
            raise ValueError("username and password go together: set both")
        return self
