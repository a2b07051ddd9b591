"""Internals of the JVM source and sink and of Spark that tests inspect."""

from __future__ import annotations

import json
from typing import Any


def about(spark: Any) -> dict[str, Any]:
    """Returns the version and the counters of the native library in this process."""
    loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    native = loader.loadClass("io.github.samsarrow.spark.Native")
    gateway = spark.sparkContext._gateway
    method = native.getDeclaredMethod("about", gateway.new_array(spark._jvm.java.lang.Class, 0))
    method.setAccessible(True)
    found = method.invoke(None, gateway.new_array(spark._jvm.java.lang.Object, 0))
    return dict(json.loads(bytes(found)))


def running(spark: Any) -> int:
    """Returns the number of running tasks. Killed tasks count until they have ended."""
    executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return sum(one.numRunningTasks() for one in executors)
