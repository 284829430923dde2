"""What Spark is told, where forgetting it would cost more than it shows."""

from tests.pipeline.conftest import House


def test_a_batch_that_is_kept_is_kept_without_a_session_of_its_own(spark: House) -> None:
    frame = spark.session.range(1).persist()
    try:
        kept = spark.session._jsparkSession.sharedState().cacheManager().lookupCachedData(frame._jdf).get()
        assert kept.cachedRepresentation().cacheBuilder().cachedPlan().session().equals(spark.session._jsparkSession)
    finally:
        frame.unpersist()
