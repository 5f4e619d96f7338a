"""What a broker's settings promise that a store of flightlog does not keep, as a table.

Every setting that RocketMQ 5.3.3 reads from `broker.conf` is in one of four places:

    kept       `NAMES` of store/conf/broker_conf.py: taken over into StoreSettings
    SAFETY     a promise that protects data or access: opening for writing refuses it by name, all else warns
    FEATURES   any other promise that is not kept: named in a warning
    HARMLESS   tunes or names something that a store in a process does not have: ignored

A setting promises only with some values: `aclEnable=false` promises nothing. A setting leaves its table when flightlog
keeps the promise. A setting that is in no place is not RocketMQ's (a typing error, or another release): named in a
warning, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

Promises = Callable[[str], bool]
"""Whether a value, without blanks around it, promises something."""


def _is(*texts: str) -> Promises:
    return lambda value: value.lower() in {text.lower() for text in texts}


def _is_not(*texts: str) -> Promises:
    return lambda value: value.lower() not in {text.lower() for text in texts}


def _above(limit: int) -> Promises:
    """What is not a number is not known to promise nothing."""
    return lambda value: not (value.isascii() and value.isdigit() and int(value[:20]) <= limit)


ANY, ON, OFF = _is_not("", '""'), _is("true"), _is("false")

Table = Mapping[str, tuple[Promises, str]]
"""RocketMQ's name -> with which values, and what flightlog does not do."""

SAFETY: Table = {
    # copies on other machines
    "brokerRole": (_is_not("ASYNC_MASTER"), "flightlog does not replicate: a put returns with one copy, on this disk"),
    "inSyncReplicas": (_above(1), "flightlog does not replicate: a put returns with one copy, on this disk"),
    "minInSyncReplicas": (_above(1), "flightlog does not replicate: a put returns with one copy, on this disk"),
    "allAckInSyncStateSet": (ON, "flightlog does not replicate: a put waits for no replica"),
    "enableControllerMode": (ON, "flightlog asks no controller whether this replica may be written"),
    "enableDLegerCommitLog": (ON, "the commit log is DLedger's, which flightlog cannot read"),
    # files that flightlog does not write
    "storeType": (_is("defaultRocksDB"), "the consume queues are in RocksDB, which flightlog cannot read"),
    "configManagerVersion": (_is_not("v1"), "topics and offsets are in RocksDB, which flightlog cannot read"),
    "messageStorePlugIn": (ANY, "flightlog runs no plug-in: what it uploads or keeps is missing, retention deletes it"),
    # who may do what
    "aclEnable": (ON, "flightlog checks no access: all code of the process may put, read and delete"),
    "authenticationEnabled": (ON, "flightlog has no authentication: all code of the process may put, read and delete"),
    "authorizationEnabled": (ON, "flightlog checks no access: all code of the process may put, read and delete"),
    "brokerPermission": (_is_not("6", "7"), "flightlog has no permission of a whole store, only of topics (perm)"),
}

FEATURES: Table = {
    # transactions
    "rejectTransactionMessage": (ON, "transactions are not refused"),
    # copies on other machines
    "totalReplicas": (_above(1), "flightlog does not replicate"),
    "haMasterAddress": (ANY, "flightlog does not replicate"),
    "enableSlaveActingMaster": (ON, "flightlog does not replicate: no slave takes over"),
    "enableRemoteEscape": (ON, "messages are not sent to another broker"),
    "duplicationEnable": (ON, "flightlog does not replicate"),
    "brokerConfigPaths": (ANY, "a store is one broker: the files of the others are not read"),
    # when a put is answered, and what it may be
    "flushCommitLogTimed": (OFF, "async flush is timed: see flush_interval_ms"),
    "wakeFlushWhenPutMessage": (ON, "async flush is timed: see flush_interval_ms"),
    "putMessageTimeout": (ANY, "the time limit of a put under sync flush is syncFlushTimeout"),
    "osPageCacheBusyTimeOutMills": (ANY, "puts are not refused while the page cache is busy"),
    "startAcceptSendRequestTimeStamp": (_above(0), "puts are accepted at once"),
    "maxTopicLength": (_is_not("127"), "a topic's name has at most 127 characters"),
    # delays and timers
    "timerWheelEnable": (OFF, "messages with a time of their own are accepted in any case"),
    "timerStopEnqueue": (ON, "timers are not stopped by a setting: see deliver_delayed"),
    "timerStopDequeue": (ON, "timers are not stopped by a setting: see deliver_delayed"),
    "timerPrecisionMs": (_is_not("1000"), "timers have a precision of 1000 ms"),
    "timerInterceptDelayLevel": (ON, "delay levels have their own queues"),
    "timerRollWindowSlot": (_is_not("172800"), "timers are written again after 172,800 s"),
    "mappedFileSizeTimerLog": (_is_not("104857600"), "a new timer log has files of 104,857,600 bytes"),
    # queues
    "mapperFileSizeBatchConsumeQueue": (_is_not("13800000"), "new batch queues have files of 13,800,000 bytes"),
    "rocksdbCQDoubleWriteEnable": (ON, "consume queues are written to files alone, not to RocksDB as well"),
    "compactionScheduleInternal": (ANY, "topics are not compacted"),
    "compactionThreadNum": (ANY, "topics are not compacted"),
    # consumers
    "autoCreateSubscriptionGroup": (OFF, "any consumer group may subscribe"),
    "disableConsumeIfConsumerReadSlowly": (ON, "a slow consumer group is not shut off"),
    "rejectPullConsumerEnable": (ON, "any code of the process may read"),
    "defaultMessageRequestMode": (_is("POP"), "consumers pull"),
    "coldDataFlowControlEnable": (ON, "reads of cold data are not slowed down"),
    # what operators see
    "traceTopicEnable": (ON, "messages are not traced"),
    "metricsExporterType": (
        _is_not("DISABLE", "0"),
        "metrics are those of `flightlog serve --metrics` and `flightlog metrics`",
    ),
}

_NAMES = (
    # `BrokerConfig` of RocketMQ 5.3.3: threads, queues of requests, name servers, statistics, pop, internals
    "accessMessageInMemoryHotRatio accountStatsEnable accountStatsPrintZeroValues ackMessageThreadPoolNums "
    "ackThreadPoolQueueCapacity adminBrokerThreadPoolNums adminBrokerThreadPoolQueueCapacity "
    "allowRecallWhenBrokerNotWriteable appendAckAsync appendCkAsync appendTopicForTimerDeleteKey asyncLearner "
    "asyncSendEnable "
    "autoDeleteUnusedStats autoMessageVersionOnTopicLen batchDispatchRequestThreadPoolNums "
    "bitMapLengthConsumeQueueExt bottomMostCompressionTypeForConsumeQueueStore broadcastOffsetExpireMaxSecond "
    "broadcastOffsetExpireSecond brokerConfigPath brokerElectionPriority brokerFastFailureEnable "
    "brokerHeartbeatInterval brokerIP2 brokerNotActiveTimeoutMillis brokerTopicEnable cgColdReadThreshold "
    "channelExpiredTimeout checkCRCOnRecover checkSyncStateSetPeriod cleanOfflineBrokerInterval "
    "cleanRocksDBDirtyCQIntervalMin cleanSwapedMapInterval clearRetryTopicWhenDeleteTopic "
    "clientManageThreadPoolNums clientManagerThreadPoolQueueCapacity clusterTopicEnable coldCtrStrategyEnable "
    "coldDataScanEnable commercialBaseCount commercialSizePerMsg commitCommitLogLeastPages "
    "commitCommitLogThoroughInterval commitIntervalCommitLog commitLogForceSwapMapInterval "
    "commitLogSwapMapInterval commitLogSwapMapReserveFileNum compactionCqMappedFileSize "
    "compactionMappedFileSize compatibleWithOldNameSrv compressedRegister configBlackList "
    "consumerFallbehindThreshold consumerManageThreadPoolNums consumerManagerThreadPoolQueueCapacity "
    "consumerOffsetUpdateVersionStep controllerAddr controllerHeartBeatTimeoutMills "
    "correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval dataReadAheadEnable debugLockEnable "
    "defaultPopShareQueueNum defaultQueryMaxNum delayOffsetUpdateVersionStep deleteCommitLogFilesInterval "
    "deleteConsumeQueueFilesInterval destroyMapedFileIntervalForcibly disappearTimeAfterStart diskFallRecorded "
    "dispatchCqCacheNum dispatchCqThreads dispatchFromSenderThread enableAsyncReput enableAutoInSyncReplicas "
    "enableBatchPush enableBroadcastOffsetStore enableBuildConsumeQueueConcurrently enableCalcFilterBitMap "
    "enableCleanExpiredOffset enableCompaction enableCreateSysGroup enableDetailStat "
    "enableFastChannelEventProcess enableLmq enableLmqStats enableMixedMessageType enableNetWorkFlowControl "
    "enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag enablePopBatchAck "
    "enablePopBufferMerge enablePopLog enablePopMessageThreshold enablePropertyFilter enableRegisterProducer "
    "enableRetryTopicV2 "
    "enableRocksDBLog enableScheduleAsyncDeliver enableScheduleMessageStats enableSingleTopicRegister "
    "enableSkipLongAwaitingAck enableSplitRegistration endTransactionPoolQueueCapacity "
    "endTransactionThreadPoolNums estimateAccumulation expectConsumerNumUseFilter fastFailIfNoBufferInStorePool "
    "fetchControllerAddrByDnsLookup fetchNameSrvAddrByDnsLookup fetchNamesrvAddrByAddressServer "
    "fetchNamesrvAddrInterval filterDataCleanTimeSpan filterSupportRetry flushConsumerOffsetHistoryInterval "
    "flushLeastPagesWhenWarmMapedFile forceRegister forwardTimeout globalColdReadThreshold haFlowControlEnable "
    "haHousekeepingInterval haListenPort haMaxGapNotInSync haMaxTimeSlaveNotCatchup haSendHeartbeatInterval "
    "haTransferBatchSize heartbeatThreadPoolNums heartbeatThreadPoolQueueCapacity highSpeedMode "
    "initPopOffsetByCheckMsgInMem isBrokerContainer isInBrokerContainer isolateLogEnable litePullMessageEnable "
    "litePullMessageThreadPoolNums litePullThreadPoolQueueCapacity loadBalancePollNameServerInterval "
    "loadBalanceProcessorThreadPoolNums loadBalanceThreadPoolQueueCapacity lockInStrictMode "
    "logicQueueForceSwapMapInterval logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum "
    "logicalDiskSpaceCleanForciblyThreshold longPollingEnable mappedFileSwapEnable maxAsyncPutMessageRequests "
    "maxBatchDeleteFilesNum maxChecksumRange maxConsumeQueueScan maxErrorRateOfBloomFilter "
    "maxHaTransferByteInSecond maxLmqConsumeQueueNum maxMsgsNumBatch maxOffsetMapSize maxPopPollingSize "
    "maxRecoveryCommitlogFiles maxSlaveResendLength maxStatsIdleTimeInMinutes memTableFlushIntervalMs "
    "messageIndexSafe metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills "
    "metricLoggingExporterIntervalInMills metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta "
    "metricsLabel metricsOtelCardinalityLimit metricsPromExporterHost metricsPromExporterPort msgTraceTopicName "
    "namesrvAddr notifyConsumerIdsChangedEnable offsetCheckInSlave popCkMaxBufferSize popCkOffsetMaxQueueSize "
    "popCkStayBufferTime popCkStayBufferTimeOut popConsumerFSServiceInit popConsumerKVServiceEnable "
    "popConsumerKVServiceInit popConsumerKVServiceLog popFromRetryProbability popInflightMessageThreshold "
    "popLongPollingForceNotifyInterval popPollingMapSize popPollingSize popResponseReturnActualRetryTopic "
    "popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead printChannelGroups printChannelGroupsMinNum "
    "processReplyMessageThreadPoolNums pullBatchMaxMessageCount pullMessageThreadPoolNums "
    "pullThreadPoolQueueCapacity putConsumeQueueDataByFileChannel putMessageFutureThreadPoolNums "
    "putMsgIndexHightWater putThreadPoolQueueCapacity queryMessageThreadPoolNums queryThreadPoolQueueCapacity "
    "readUnCommitted realTimeNotifyConsumerChange realTimePersistRocksDBConfig recallMessageEnable "
    "recheckReputOffsetFromCq recoverConcurrently recoverThreadPoolNums redeleteHangedFileInterval regionId "
    "registerBrokerTimeoutMills registerNameServerPeriod replicasPerDiskPartition replyThreadPoolQueueCapacity "
    "retrieveMessageFromPopRetryTopicV1 reviveAckWaitMs reviveInterval reviveMaxSlow reviveQueueNum "
    "reviveScanTime rocketmqHome rocksdbCompressionType rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold "
    "sampleCountThreshold sampleSteps scheduleAsyncDeliverMaxPendingLimit "
    "scheduleAsyncDeliverMaxResendNum2Blocked searchBcqByCacheEnable sendHeartbeatTimeoutMillis "
    "sendMessageThreadPoolNums sendThreadPoolQueueCapacity serverLoadBalancerEnable shortPollingTimeMills "
    "skipPreOnline skipWhenCKRePutReachMaxTimes slaveReadEnable slaveTimeout "
    "spinLockCollisionRetreatOptimalDegree splitRegistrationSize statRocksDBCQIntervalSec "
    "storeReplyMessageEnable subscriptionExpiredTimeout syncBrokerMemberGroupPeriod syncBrokerMetadataPeriod "
    "syncControllerMetadataPeriod syncFromLastFile syncMasterFlushOffsetWhenStartup timerCheckMetricsWhen "
    "timerColdDataCheckIntervalMs timerEnableCheckMetrics timerEnableDisruptor timerEnableRetryUntilSuccess "
    "timerFlushIntervalMs timerGetMessageThreadNum timerMetricSmallThreshold timerProgressLogIntervalMs "
    "timerPutMessageThreadNum timerSkipUnknownError timerWarmEnable topicQueueLockNum traceOn "
    "transactionMetricFlushInterval transactionOpBatchInterval transactionOpMsgMaxSize transferMsgByHeap "
    "transientStorePoolEnable transientStorePoolSize travelCqFileNumWhenGetMessage updateNameServerAddrPeriod "
    "useABSLock usePIDColdCtrStrategy useReentrantLockWhenPutMessage useServerSideResetOffset "
    "useStaticSubscription validateSystemTopicWhenUpdateTopic waitTimeMillsInAckQueue "
    "waitTimeMillsInAdminBrokerQueue waitTimeMillsInHeartbeatQueue waitTimeMillsInLitePullQueue "
    "waitTimeMillsInPullQueue waitTimeMillsInSendQueue waitTimeMillsInTransactionQueue wakeCommitWhenPutMessage "
    "warmMapedFileEnable "
    # `BrokerIdentity`
    "brokerClusterName brokerId brokerName inBrokerContainer "
    # `NettyServerConfig`
    "bindAddress enableShutdownGracefully serverAsyncSemaphoreValue serverCallbackExecutorThreads "
    "serverChannelMaxIdleTimeSeconds serverNettyWorkerGroupEnable serverOnewaySemaphoreValue "
    "serverPooledByteBufAllocatorEnable serverSelectorThreads serverSocketBacklog serverSocketRcvBufSize "
    "serverSocketSndBufSize serverWorkerThreads shutdownWaitTimeSeconds useEpollNativeSelector "
    "writeBufferHighWaterMark writeBufferLowWaterMark "
    # `NettyClientConfig`
    "channelNotActiveInterval clientAsyncSemaphoreValue clientCallbackExecutorThreads "
    "clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout clientOnewaySemaphoreValue "
    "clientPooledByteBufAllocatorEnable clientSocketRcvBufSize clientSocketSndBufSize clientWorkerThreads "
    "connectTimeoutMillis disableCallbackExecutor disableNettyWorkerGroup enableReconnectForGoAway "
    "maxReconnectIntervalTimeSeconds scanAvailableNameSrv socksProxyConfig useTLS "
    # `AuthConfig`: details of what `authenticationEnabled` and `authorizationEnabled` turn on
    "aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authConfigPath authenticationMetadataProvider "
    "authenticationProvider authenticationStrategy authenticationWhitelist authorizationMetadataProvider "
    "authorizationProvider authorizationStrategy authorizationWhitelist clusterName configName "
    "initAuthenticationUser innerClientAuthenticationCredentials migrateAuthFromV1Enabled "
    "statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum "
    "statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum userCacheExpiredSecond "
    "userCacheMaxNum userCacheRefreshSecond "
    # `MessageStoreConfig` of the tiered store: details of what `messageStorePlugIn` turns on
    "commitLogRollingInterval commitLogRollingMinimumSize objectStoreAccessKey objectStoreBucket "
    "objectStoreEndpoint objectStoreSecretKey readAheadCacheEnable readAheadCacheExpireDuration "
    "readAheadCacheSizeThresholdRate readAheadMessageCountThreshold readAheadMessageSizeThreshold "
    "recordGetMessageResult tieredBackendServiceProvider tieredMetadataServiceProvider tieredStorageLevel "
    "tieredStoreCommitLogMaxSize tieredStoreConsumeQueueMaxSize tieredStoreCrcCheckEnable "
    "tieredStoreDeleteFileEnable tieredStoreDeleteFileInterval tieredStoreFilePath tieredStoreFileReservedTime "
    "tieredStoreGroupCommit tieredStoreGroupCommitCount tieredStoreGroupCommitSize "
    "tieredStoreGroupCommitTimeout tieredStoreIndexFileMaxHashSlotNum tieredStoreIndexFileMaxIndexNum "
    "tieredStoreMaxGroupCommitCount tieredStoreMaxPendingLimit "
    # details of what `enableDLegerCommitLog` turns on
    "dLegerGroup dLegerPeers dLegerSelfId "
    # `BrokerContainerConfig`
    "updateNamesrvAddrInterval "
)
HARMLESS = frozenset(_NAMES.split())
"""Nothing of what these do concerns a store inside a process, or flightlog does it in any case."""

KNOWN = SAFETY.keys() | FEATURES.keys() | HARMLESS
"""All settings that RocketMQ 5.3.3 reads from `broker.conf`, those that are kept excepted; of 5.5 the one that our own
conf has."""


class UnkeptPromise(NamedTuple):
    """A setting of a `broker.conf` whose promise flightlog does not keep."""

    name: str
    value: str
    line: int
    why: str
    is_safety: bool
    """Whether opening for writing refuses it."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.name} = {self.value}: {self.why}"


def unkept_promise(name: str, value: str, line: int) -> UnkeptPromise | None:
    """None: flightlog keeps this setting's promise, or there is none."""
    for table in (SAFETY, FEATURES):
        if name in table:
            promises, why = table[name]
            return UnkeptPromise(name, value, line, why, table is SAFETY) if promises(value) else None
    return None
