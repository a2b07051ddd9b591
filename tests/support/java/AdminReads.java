import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.QuorumInfo;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/**
 * Prints the state of a cluster, read by Java's AdminClient, as JSON. Arguments: bootstrap servers, topic, group,
 * transactional id.
 */
public class AdminReads {
    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        ObjectMapper json = new ObjectMapper();
        ObjectNode found = json.createObjectNode();
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            TopicDescription described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            ArrayNode partitions = found.putObject("topic").put("id", uuid(described.topicId())).putArray("partitions");
            for (TopicPartitionInfo p : described.partitions()) {
                partitions.addArray().add(p.partition()).add(p.leader().id()).addPOJO(ids(p.replicas())).addPOJO(ids(p.isr()));
            }
            for (ConfigResource resource : List.of(
                new ConfigResource(ConfigResource.Type.TOPIC, topic), new ConfigResource(ConfigResource.Type.BROKER, "1"),
                new ConfigResource(ConfigResource.Type.BROKER_LOGGER, "1"))) {
                DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
                Config config = admin.describeConfigs(List.of(resource), options).all().get().get(resource);
                ObjectNode entries = found.putObject("configs " + resource.type());
                for (ConfigEntry e : config.entries()) {
                    entries.putArray(e.name()).add(e.value()).add(e.source().ordinal()).add(e.isReadOnly())
                        .add(e.isSensitive()).add(e.type().name()).add(e.documentation()).add(e.synonyms().size());
                }
            }
            var cluster = admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true));
            found.putObject("cluster").put("id", cluster.clusterId().get()).putPOJO("nodes", ids(cluster.nodes().get()));
            ObjectNode features = found.putObject("features");
            admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach(
                (name, range) -> features.putArray(name).add(range.minVersionLevel()).add(range.maxVersionLevel()));
            QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
            found.putObject("quorum").put("leader", quorum.leaderId()).putPOJO("voters",
                quorum.voters().stream().map(QuorumInfo.ReplicaState::replicaId).collect(Collectors.toList()));
            ObjectNode disks = found.putObject("disks");
            for (Map.Entry<String, LogDirDescription> dir : admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1).entrySet()) {
                ObjectNode one = disks.putObject(dir.getKey()).put("total", dir.getValue().totalBytes().orElse(-1));
                ObjectNode replicas = one.putObject("replicas");
                dir.getValue().replicaInfos().forEach((tp, info) -> replicas.put(tp.toString(), info.size()));
            }
            ArrayNode quotas = found.putArray("quotas");
            for (Map.Entry<ClientQuotaEntity, Map<String, Double>> e : admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().entrySet()) {
                quotas.addArray().addPOJO(e.getKey().entries()).addPOJO(e.getValue());
            }
            ObjectNode committed = found.putObject("committed");
            admin.listConsumerGroupOffsets(arguments[2]).partitionsToOffsetAndMetadata().get().forEach(
                (tp, at) -> committed.put(tp.toString(), at.offset()));
            List<TopicPartition> all = new ArrayList<>();
            described.partitions().forEach(p -> all.add(new TopicPartition(topic, p.partition())));
            Map<String, OffsetSpec> specs = Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(),
                "max", OffsetSpec.maxTimestamp(), "time", OffsetSpec.forTimestamp(2000));
            for (Map.Entry<String, OffsetSpec> spec : specs.entrySet()) {
                ObjectNode offsets = found.putObject("offsets " + spec.getKey());
                admin.listOffsets(all.stream().collect(Collectors.toMap(tp -> tp, tp -> spec.getValue()))).all().get().forEach(
                    (tp, at) -> offsets.put(tp.toString(), at.offset()));
            }
            ObjectNode transactions = found.putObject("transactions");
            for (TransactionListing t : admin.listTransactions().all().get()) {
                transactions.putArray(t.transactionalId()).add(t.producerId()).add(t.state().toString());
            }
            TransactionDescription t = admin.describeTransactions(List.of(arguments[3])).description(arguments[3]).get();
            found.putObject("transaction").put("coordinator", t.coordinatorId()).put("state", t.state().toString())
                .put("producer", t.producerId()).put("epoch", t.producerEpoch()).put("timeout", t.transactionTimeoutMs())
                .putPOJO("partitions", t.topicPartitions().stream().map(TopicPartition::toString).sorted().toList());
            ArrayNode producers = found.putArray("producers");
            for (ProducerState p : admin.describeProducers(all).all().get().get(all.get(0)).activeProducers()) {
                producers.addArray().add(p.producerId()).add(p.producerEpoch()).add(p.lastSequence())
                    .add(p.currentTransactionStartOffset().orElse(-1));
            }
            ArrayNode resources = found.putArray("resources");
            for (ConfigResource r : admin.listConfigResources().all().get()) {
                resources.addArray().add(r.type().name()).add(r.name());
            }
        }
        System.out.println(json.writeValueAsString(found));
    }

    /** Returns an id in the standard text form of UUIDs, instead of Kafka's Base64 form. */
    private static String uuid(org.apache.kafka.common.Uuid id) {
        return new java.util.UUID(id.getMostSignificantBits(), id.getLeastSignificantBits()).toString();
    }

    private static List<Integer> ids(Iterable<Node> nodes) {
        List<Integer> ids = new ArrayList<>();
        nodes.forEach(node -> ids.add(node.id()));
        return ids;
    }
}
