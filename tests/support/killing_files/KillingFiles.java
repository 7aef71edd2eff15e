import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;

/**
 * Spark's own files of a checkpoint, in a process that dies right before or after one of them is there.
 *
 * <p>Every log of Spark's (offsets, commits, a file sink's) writes a file of another name and renames it. An order is a
 * file with a text such as "before offsets"; the process that obeys it removes it first. The end is that of kill -9 for
 * this JVM and for the Python that has started it: no hook runs, and nothing is written any more.
 */
public class KillingFiles extends FileContextBasedCheckpointFileManager {
  private final String orders;

  public KillingFiles(Path path, Configuration configuration) {
    super(path, configuration);
    orders = configuration.get("test.kill.order");
  }

  @Override
  public void renameTempFile(Path written, Path wanted, boolean overwrite) {
    obey("before", wanted);
    super.renameTempFile(written, wanted, overwrite);
    obey("after", wanted);
  }

  private void obey(String when, Path wanted) {
    try {
      java.nio.file.Path order = Paths.get(orders);
      boolean meant = Files.exists(order) && Files.readString(order).equals(when + " " + wanted.getParent().getName());
      if (meant && Files.deleteIfExists(order)) {
        ProcessHandle.current().parent().ifPresent(ProcessHandle::destroyForcibly); // Python, which would go on
        Runtime.getRuntime().halt(137);
      }
    } catch (java.io.IOException unreadable) {
      throw new java.io.UncheckedIOException(unreadable);
    }
  }
}
