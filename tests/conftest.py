import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # nothing touches the network


def pytest_collection_modifyitems(items):
    """What takes long first, so that no worker is left with it at the end: learning, then files by their slow tests."""
    slow = {}
    for item in items:
        slow[item.path] = slow.get(item.path, 0) + (item.get_closest_marker("slow") is not None)
    items.sort(key=lambda item: ("learning" not in item.path.parts, -slow[item.path]))
