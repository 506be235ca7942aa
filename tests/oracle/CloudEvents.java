import io.debezium.converters.CloudEventsConverter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Reads lines of "true" or "false" (whether data has its schema), a tab, and a JsonConverter's record
 * with its schema; writes what Debezium's CloudEventsConverter makes of each, in structured mode, and
 * behind a tab the names of the headers that it sets.
 */
class CloudEvents {
    public static void main(String[] arguments) throws Exception {
        JsonConverter json = new JsonConverter();
        json.configure(Map.of("schemas.enable", "true"), false);
        List<String> found = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split("\t", 2);
            CloudEventsConverter converter = new CloudEventsConverter();
            converter.configure(
                Map.of("serializer.type", "json", "data.serializer.type", "json",
                    "json.schemas.enable", parts[0]),
                false);
            byte[] bytes = parts[1].getBytes(StandardCharsets.UTF_8);
            SchemaAndValue given = json.toConnectData("", bytes);
            RecordHeaders headers = new RecordHeaders();
            byte[] made = converter.fromConnectData(
                "s.public.t", headers, given.schema(), given.value());
            List<String> names = new ArrayList<>();
            for (Header header : headers) {
                names.add(header.key() + "=" + new String(header.value(), StandardCharsets.UTF_8));
            }
            found.add(new String(made, StandardCharsets.UTF_8) + "\t" + String.join(",", names));
        }
        Files.write(Path.of(arguments[1]), found);
    }
}
