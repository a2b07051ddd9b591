import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.UserScramCredentialsDescription;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/**
 * Reads users, ACLs and delegation tokens with Java's AdminClient. Standard input is a JSON object with "config", the
 * config of this client, and "logins", a list of configs to log in with. The results are printed as JSON.
 */
public class Access {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        JsonNode input = JSON.readTree(System.in);
        ObjectNode found = JSON.createObjectNode();
        try (Admin admin = Admin.create(strings(input.get("config")))) {
            ArrayNode users = found.putArray("users");
            for (UserScramCredentialsDescription user : admin.describeUserScramCredentials().all().get().values()) {
                for (ScramCredentialInfo info : user.credentialInfos()) {
                    users.addArray().add(user.name()).add(info.mechanism().mechanismName()).add(info.iterations());
                }
            }
            ArrayNode acls = found.putArray("acls");
            for (AclBinding acl : admin.describeAcls(AclBindingFilter.ANY).values().get()) {
                acls.addArray()
                    .add(acl.pattern().resourceType().name()).add(acl.pattern().name())
                    .add(acl.pattern().patternType().name()).add(acl.entry().principal()).add(acl.entry().host())
                    .add(acl.entry().operation().name()).add(acl.entry().permissionType().name());
            }
            ArrayNode tokens = found.putArray("tokens");
            for (DelegationToken token : admin.describeDelegationToken().delegationTokens().get()) {
                ObjectNode one = tokens.addObject()
                    .put("id", token.tokenInfo().tokenId()).put("hmac", token.hmacAsBase64String())
                    .put("owner", token.tokenInfo().ownerAsString())
                    .put("requester", token.tokenInfo().tokenRequester().toString())
                    .put("issued", token.tokenInfo().issueTimestamp())
                    .put("expires", token.tokenInfo().expiryTimestamp())
                    .put("ends", token.tokenInfo().maxTimestamp());
                ArrayNode renewers = one.putArray("renewers");
                for (KafkaPrincipal renewer : token.tokenInfo().renewers()) {
                    renewers.add(renewer.toString());
                }
            }
        }
        ArrayNode logins = found.putArray("logins");
        for (JsonNode login : input.get("logins")) {
            try (Admin admin = Admin.create(strings(login))) {
                admin.listTopics().names().get();
                logins.add("ok");
            } catch (Exception error) {
                logins.add(error.toString());
            }
        }
        System.out.println(JSON.writeValueAsString(found));
    }

    private static Map<String, Object> strings(JsonNode object) {
        Map<String, Object> map = new HashMap<>();
        object.fields().forEachRemaining(field -> map.put(field.getKey(), field.getValue().asText()));
        return map;
    }
}
