import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;

/**
 * Java's AdminClient, controlled by lines of JSON. Each request is a list with a method name and its arguments. Each
 * response is a list with a value, or with null and the name of an exception. Command line arguments: bootstrap servers
 * and controllers.
 */
public class AdminShell {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        try (Admin brokers = Admin.create(Map.of("bootstrap.servers", arguments[0]));
             Admin controllers = Admin.create(Map.of("bootstrap.controllers", arguments[1]));
             BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                JsonNode asked = JSON.readTree(line);
                boolean direct = asked.get(0).asText().startsWith("controllers:");
                String name = asked.get(0).asText().replace("controllers:", "");
                List<Object> answer = new ArrayList<>();
                try {
                    answer.add(run(direct ? controllers : brokers, name, asked));
                } catch (ExecutionException failed) {
                    answer.add(null);
                    answer.add(failed.getCause().getClass().getSimpleName());
                }
                System.out.println(JSON.writeValueAsString(answer));
                System.out.flush();
            }
        }
    }

    private static Object run(Admin admin, String name, JsonNode a) throws Exception {
        switch (name) {
            case "topic": {
                TopicDescription topic = admin.describeTopics(List.of(a.get(1).asText()),
                    new DescribeTopicsOptions().includeAuthorizedOperations(true)).allTopicNames().get().get(a.get(1).asText());
                List<Object> partitions = new ArrayList<>();
                topic.partitions().forEach(p -> partitions.add(List.of(p.leader().id(), ids(p.replicas()))));
                return List.of(partitions, codes(topic.authorizedOperations()));
            }
            case "cluster": {
                DescribeClusterResult cluster = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
                return List.of(ids(cluster.nodes().get()), codes(cluster.authorizedOperations().get()), cluster.controller().get().id());
            }
            case "group":
                return codes(admin.describeConsumerGroups(List.of(a.get(1).asText()),
                    new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).all().get().get(a.get(1).asText()).authorizedOperations());
            case "groups": {
                ListGroupsOptions options = new ListGroupsOptions();
                Set<GroupState> states = new TreeSet<>();
                a.get(1).forEach(s -> states.add(GroupState.parse(s.asText())));
                Set<GroupType> types = new TreeSet<>();
                a.get(2).forEach(t -> types.add(GroupType.parse(t.asText())));
                Set<String> protocols = new TreeSet<>();
                a.get(3).forEach(p -> protocols.add(p.asText()));
                options.inGroupStates(states).withTypes(types).withProtocolTypes(protocols);
                Set<String> found = new TreeSet<>();
                admin.listGroups(options).all().get().forEach(g -> found.add(g.groupId()));
                return found;
            }
            case "quorum": {
                QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
                List<Object> voters = new ArrayList<>();
                quorum.voters().forEach(v -> voters.add(List.of(v.replicaId(), uuid(v.replicaDirectoryId()))));
                return voters;
            }
            case "addVoter":
                admin.addRaftVoter(a.get(1).asInt(), id(a.get(2)), Set.of(
                    new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", a.get(3).asInt()))).all().get();
                return null;
            case "removeVoter":
                admin.removeRaftVoter(a.get(1).asInt(), id(a.get(2))).all().get();
                return null;
            case "unregister":
                admin.unregisterBroker(a.get(1).asInt()).all().get();
                return null;
            case "features": {
                Map<String, List<Short>> found = new TreeMap<>();
                admin.describeFeatures().featureMetadata().get().finalizedFeatures().forEach(
                    (feature, range) -> found.put(feature, List.of(range.minVersionLevel(), range.maxVersionLevel())));
                return found;
            }
            case "updateFeature":
                admin.updateFeatures(Map.of(a.get(1).asText(), new FeatureUpdate((short) a.get(2).asInt(),
                    FeatureUpdate.UpgradeType.fromCode(a.get(3).asInt()))), new UpdateFeaturesOptions()).all().get();
                return null;
            case "config":
                return admin.describeConfigs(List.of(resource(a))).all().get().get(resource(a)).get(a.get(3).asText()).value();
            case "alterConfig":
                admin.incrementalAlterConfigs(Map.of(resource(a), List.of(new AlterConfigOp(
                    new ConfigEntry(a.get(3).asText(), a.get(4).isNull() ? null : a.get(4).asText()),
                    AlterConfigOp.OpType.valueOf(a.get(5).asText()))))).all().get();
                return null;
            case "quotas": {
                List<Object> found = new ArrayList<>();
                admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().forEach(
                    (entity, values) -> found.add(List.of(new TreeMap<>(entity.entries()), new TreeMap<>(values))));
                return found;
            }
            case "alterQuota":
                admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
                    new ClientQuotaEntity(Map.of(a.get(1).asText(), a.get(2).asText())),
                    List.of(new ClientQuotaAlteration.Op(a.get(3).asText(), a.get(4).isNull() ? null : a.get(4).asDouble()))))).all().get();
                return null;
            case "reassignments": {
                Map<String, Object> found = new TreeMap<>();
                admin.listPartitionReassignments().reassignments().get().forEach((tp, r) ->
                    found.put(tp.toString(), List.of(r.replicas(), r.addingReplicas(), r.removingReplicas())));
                return found;
            }
            case "reassign": {
                Optional<NewPartitionReassignment> to = Optional.empty();
                if (!a.get(3).isNull()) {
                    List<Integer> brokers = new ArrayList<>();
                    a.get(3).forEach(b -> brokers.add(b.asInt()));
                    to = Optional.of(new NewPartitionReassignment(brokers));
                }
                admin.alterPartitionReassignments(Map.of(partition(a), to)).all().get();
                return null;
            }
            case "elect":
                admin.electLeaders(ElectionType.PREFERRED, Set.of(partition(a))).all().get();
                return null;
            case "disk": {
                TopicPartitionReplica replica = new TopicPartitionReplica(a.get(1).asText(), a.get(2).asInt(), a.get(3).asInt());
                return admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica).getCurrentReplicaLogDir();
            }
            case "move":
                admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(a.get(1).asText(), a.get(2).asInt(),
                    a.get(3).asInt()), a.get(4).asText())).all().get();
                return null;
            case "offset":
                return admin.listOffsets(Map.of(partition(a), a.get(3).asInt() < 0 ? OffsetSpec.earliest()
                    : OffsetSpec.forTimestamp(a.get(3).asLong()))).all().get().get(partition(a)).offset();
            case "deleteRecords":
                return admin.deleteRecords(Map.of(partition(a), RecordsToDelete.beforeOffset(a.get(3).asLong())))
                    .lowWatermarks().get(partition(a)).get().lowWatermark();
            case "producers": {
                List<Object> found = new ArrayList<>();
                Collection<ProducerState> active = admin.describeProducers(List.of(partition(a))).all().get().get(partition(a)).activeProducers();
                active.forEach(p -> found.add(List.of(p.producerId(), p.currentTransactionStartOffset().orElse(-1))));
                return found;
            }
            case "abort":
                admin.abortTransaction(new AbortTransactionSpec(partition(a), a.get(3).asLong(), (short) a.get(4).asInt(), -1)).all().get();
                return null;
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private static TopicPartition partition(JsonNode a) {
        return new TopicPartition(a.get(1).asText(), a.get(2).asInt());
    }

    private static ConfigResource resource(JsonNode a) {
        return new ConfigResource(ConfigResource.Type.valueOf(a.get(1).asText()), a.get(2).asText());
    }

    private static List<Integer> codes(Set<AclOperation> operations) {
        List<Integer> found = new ArrayList<>();
        new TreeSet<>(operations).forEach(operation -> found.add((int) operation.code()));
        return found;
    }

    private static List<Integer> ids(Collection<Node> nodes) {
        List<Integer> found = new ArrayList<>();
        nodes.forEach(node -> found.add(node.id()));
        return found;
    }

    /** Returns an id in the standard text form of UUIDs, instead of Kafka's Base64 form. */
    private static String uuid(Uuid id) {
        return new java.util.UUID(id.getMostSignificantBits(), id.getLeastSignificantBits()).toString();
    }

    private static Uuid id(JsonNode text) {
        java.util.UUID id = java.util.UUID.fromString(text.asText());
        return new Uuid(id.getMostSignificantBits(), id.getLeastSignificantBits());
    }
}
