"""Source and sink of Ray Data: `Topic` and `TopicSink`.

Needs Ray Data: `pip install 'ray[data]>=2.60'`.
"""

from samsarrow.integrations.ray import Topic, TopicSink

__all__ = ["Topic", "TopicSink"]
