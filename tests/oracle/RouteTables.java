import io.debezium.transforms.ByLogicalTableRouter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Reads lines of settings (name=value, apart by semicolons), a topic, a key and a value, apart by
 * tabs, keys and values as JsonConverter writes them with their schemas or empty; writes topic, key
 * and value of what ByLogicalTableRouter makes of each, or what it throws.
 */
class RouteTables {
    public static void main(String[] arguments) throws Exception {
        JsonConverter json = new JsonConverter();
        json.configure(Map.of("schemas.enable", "true"), false);
        List<String> found = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split("\t", -1);
            Map<String, String> settings = new HashMap<>();
            for (String one : parts[0].split(";")) {
                String[] pair = one.split("=", 2);
                settings.put(pair[0], pair[1]);
            }
            ByLogicalTableRouter<SourceRecord> transform = new ByLogicalTableRouter<>();
            transform.configure(settings);
            SchemaAndValue key = read(json, parts[2]);
            SchemaAndValue value = read(json, parts[3]);
            SourceRecord record = new SourceRecord(
                Map.of(), Map.of(), parts[1], key.schema(), key.value(), value.schema(),
                value.value());
            try {
                SourceRecord made = transform.apply(record);
                found.add(made == null ? "dropped" : String.join("\t", made.topic(),
                    written(json, new SchemaAndValue(made.keySchema(), made.key())),
                    written(json, new SchemaAndValue(made.valueSchema(), made.value()))));
            } catch (RuntimeException error) {
                found.add("fails: " + error.getClass().getSimpleName());
            }
            transform.close();
        }
        Files.write(Path.of(arguments[1]), found);
    }

    private static SchemaAndValue read(JsonConverter json, String text) {
        return text.isEmpty()
            ? SchemaAndValue.NULL
            : json.toConnectData("", text.getBytes(StandardCharsets.UTF_8));
    }

    private static String written(JsonConverter json, SchemaAndValue one) {
        return one.value() == null
            ? ""
            : new String(json.fromConnectData("", one.schema(), one.value()), StandardCharsets.UTF_8);
    }
}
