"""What operators have the server do: commands in processes of their own, and who had them run."""
