import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.transforms.ExtractNewRecordState;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;

/**
 * Reads lines of settings (name=value, apart by semicolons), a tab, and a JsonConverter's record with
 * its schema, or nothing for a tombstone; writes what ExtractNewRecordState makes of each: "dropped",
 * "tombstone", or the record as JsonConverter writes it; with a tab and the headers if it has some.
 */
class FlattenRows {
    public static void main(String[] arguments) throws Exception {
        JsonConverter json = new JsonConverter();
        json.configure(Map.of("schemas.enable", "true"), false);
        List<String> found = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split("\t", 2);
            Map<String, String> settings = new HashMap<>();
            for (String one : parts[0].split(";")) {
                String[] pair = one.split("=", 2);
                settings.put(pair[0], pair[1]);
            }
            ExtractNewRecordState<SourceRecord> transform = new ExtractNewRecordState<>();
            transform.configure(settings);
            SchemaAndValue given = parts[1].isEmpty()
                ? SchemaAndValue.NULL
                : json.toConnectData("", parts[1].getBytes(StandardCharsets.UTF_8));
            SourceRecord record = new SourceRecord(
                Map.of(), Map.of(), "s.public.t", given.schema(), given.value());
            SourceRecord made = transform.apply(record);
            if (made == null) {
                found.add("dropped");
            } else if (made.value() == null) {
                found.add("tombstone" + headers(made));
            } else {
                byte[] text = json.fromConnectData("", made.valueSchema(), made.value());
                found.add(new String(text, StandardCharsets.UTF_8) + headers(made));
            }
            transform.close();
        }
        Files.write(Path.of(arguments[1]), found);
    }

    /** A tab, and names and values of the headers as Connect's default converter writes them. */
    private static String headers(SourceRecord record) throws Exception {
        SimpleHeaderConverter converter = new SimpleHeaderConverter();
        List<List<String>> found = new ArrayList<>();
        for (Header one : record.headers()) {
            byte[] text = converter.fromConnectHeader("", one.key(), one.schema(), one.value());
            found.add(Arrays.asList(
                one.key(), text == null ? null : new String(text, StandardCharsets.UTF_8)));
        }
        return found.isEmpty() ? "" : "\t" + new ObjectMapper().writeValueAsString(found);
    }
}
