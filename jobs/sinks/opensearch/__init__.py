"""Views in OpenSearch."""
