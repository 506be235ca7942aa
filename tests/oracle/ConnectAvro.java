import io.apicurio.registry.utils.converter.avro.AvroData;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Reads lines of JsonConverter's records with their schemas; writes for each, apart by tabs, the Avro
 * schema that Connect's AvroConverter makes of it, the record in Avro as hex, and the record that
 * the converter makes of that again, as JsonConverter writes it.
 */
class ConnectAvro {
    public static void main(String[] arguments) throws Exception {
        JsonConverter json = new JsonConverter();
        json.configure(Map.of("schemas.enable", "true"), false);
        List<String> found = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            SchemaAndValue given = json.toConnectData("", line.getBytes(StandardCharsets.UTF_8));
            AvroData avro = new AvroData(1);
            Schema schema = avro.fromConnectSchema(given.schema());
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(bytes, null);
            Object value = avro.fromConnectData(given.schema(), given.value());
            new GenericDatumWriter<Object>(schema).write(value, encoder);
            encoder.flush();
            Schema parsed = new Schema.Parser().parse(schema.toString());
            Object read = new GenericDatumReader<Object>(parsed)
                .read(null, DecoderFactory.get().binaryDecoder(bytes.toByteArray(), null));
            SchemaAndValue back = new AvroData(1).toConnectData(parsed, read);
            byte[] again = json.fromConnectData("", back.schema(), back.value());
            String hex = HexFormat.of().formatHex(bytes.toByteArray());
            String text = new String(again, StandardCharsets.UTF_8);
            found.add(String.join("\t", schema.toString(), hex, text));
        }
        Files.write(Path.of(arguments[1]), found);
    }
}
