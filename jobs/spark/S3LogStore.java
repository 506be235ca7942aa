package headwater;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log in S3. Delta's own store looks whether a version is there and writes it then, so that
 * of two processes both may succeed; here S3 takes a version only if there is none (If-None-Match),
 * as delta-rs has it, too.
 */
public final class S3LogStore extends S3SingleDriverLogStore {
    private static final String ONLY_NEW = "fs.option.create.conditional.overwrite";

    public S3LogStore(Configuration configuration) {
        super(configuration);
    }

    @Override
    public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration hadoop)
            throws IOException {
        if (overwrite) {
            super.write(path, actions, true, hadoop);
            return;
        }
        ByteArrayOutputStream lines = new ByteArrayOutputStream();
        while (actions.hasNext()) {
            lines.write((actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
        }
        byte[] content = lines.toByteArray();
        FileSystem files = path.getFileSystem(hadoop);
        try {
            FSDataOutputStreamBuilder<?, ?> file = files.createFile(path);
            file.must(ONLY_NEW, true);
            FSDataOutputStream stream = file.build();
            stream.write(content);
            stream.close();
        } catch (IOException error) {
            if (!files.exists(path)) {
                throw error;
            }
            if (!holds(files, path, content)) {  // else an answer was lost, and the put was repeated
                throw new FileAlreadyExistsException(path.toString());
            }
        }
    }

    private static boolean holds(FileSystem files, Path path, byte[] content) throws IOException {
        if (files.getFileStatus(path).getLen() != content.length) {
            return false;
        }
        byte[] held = new byte[content.length];
        try (FSDataInputStream stream = files.open(path)) {
            stream.readFully(0, held);
        }
        return Arrays.equals(held, content);
    }
}
