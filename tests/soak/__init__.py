"""The whole path for as long as wanted, under a steady load, with a fault each minute."""
