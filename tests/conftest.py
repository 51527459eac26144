def pytest_collection_modifyitems(items):
    """Files with the most slow tests first, so that no worker is left with one of them at the end."""
    slow = {}
    for item in items:
        slow[item.path] = slow.get(item.path, 0) + (item.get_closest_marker("slow") is not None)
    items.sort(key=lambda item: -slow[item.path])
