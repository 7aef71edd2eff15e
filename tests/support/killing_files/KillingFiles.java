import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;

/**
 * Spark's own files of a checkpoint, in a process that dies right before or after one of them is there.
 *
 * <p>Every log of Spark's (offsets, commits, a file sink's) writes a file of another name and renames it. An order is a
 * file named after a step, such as "lake before offsets 7". The query that reaches the step removes it and goes no
 * further. When no order is left, the process ends as by kill -9, and so does the Python that has started it: no hook
 * runs, and nothing is written any more.
 */
public class KillingFiles extends FileContextBasedCheckpointFileManager {
  private final java.nio.file.Path orders;

  public KillingFiles(Path path, Configuration configuration) {
    super(path, configuration);
    orders = Paths.get(configuration.get("test.kill.orders"));
  }

  @Override
  public void renameTempFile(Path written, Path wanted, boolean overwrite) {
    obey("before", wanted);
    super.renameTempFile(written, wanted, overwrite);
    obey("after", wanted);
  }

  private void obey(String when, Path wanted) {
    Path log = wanted.getParent();
    String step = String.join(" ", log.getParent().getName(), when, log.getName(), wanted.getName());
    try {
      if (Files.deleteIfExists(orders.resolve(step))) {
        if (orders.toFile().list().length == 0) {
          ProcessHandle.current().parent().ifPresent(ProcessHandle::destroyForcibly); // Python, which would go on
          Runtime.getRuntime().halt(137);
        }
        new CountDownLatch(1).await();
      }
    } catch (IOException | InterruptedException unexpected) {
      throw new IllegalStateException(unexpected);
    }
  }
}
