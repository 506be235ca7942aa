"""Events in other forms than the default one, brought into the default form. Pure."""
