import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.encryption.EncryptionKeyMetadata;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.types.Types;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.StructType;

/** Deletes as streaming writers commit them, by Iceberg's own writers: files of deletes for an unpartitioned table. */
public class Deletes {
  /**
   * Deletes all rows that equal one of the keys in the columns that the keys have; null equals null. Writes one delete
   * file for each dataset and commits them together.
   */
  public static void deleteEqual(Table table, List<Dataset<Row>> keys) throws IOException {
    List<DeleteFile> files = new ArrayList<>();
    for (Dataset<Row> some : keys) {
      files.add(writeEqual(table, some));
    }
    commit(table, files);
  }

  /**
   * Deletes rows by their places (file, position), sorted by both: with a delete file for each data file, or with one for
   * all of them.
   */
  public static void deletePositions(Table table, Dataset<Row> places, boolean fileScoped) throws IOException {
    List<DeleteFile> files = new ArrayList<>();
    List<Row> some = new ArrayList<>();
    for (Row place : places.collectAsList()) {
      if (fileScoped && !some.isEmpty() && !some.get(0).getString(0).equals(place.getString(0))) {
        files.add(writePositions(table, some));
        some.clear();
      }
      some.add(place);
    }
    files.add(writePositions(table, some));
    commit(table, files);
  }

  private static DeleteFile writeEqual(Table table, Dataset<Row> keys) throws IOException {
    Schema schema = table.schema().select(keys.columns());
    List<Types.NestedField> fields = schema.columns();
    StructType types = SparkSchemaUtil.convert(schema);
    Column[] columns = new Column[fields.size()];
    for (int i = 0; i < columns.length; ++i) {
      columns[i] = keys.col(fields.get(i).name()).cast(types.fields()[i].dataType());
    }
    GenericFileWriterFactory factory =
        new GenericFileWriterFactory.Builder(table)
            .deleteFileFormat(FileFormat.PARQUET)
            .equalityFieldIds(fields.stream().mapToInt(Types.NestedField::fieldId).toArray())
            .equalityDeleteRowSchema(schema)
            .build();
    EqualityDeleteWriter<Record> writer = factory.newEqualityDeleteWriter(output(table), table.spec(), null);
    try (writer) {
      Record record = GenericRecord.create(schema);
      for (Iterator<Row> rows = keys.select(columns).toLocalIterator(); rows.hasNext(); ) {
        Row row = rows.next();
        for (int i = 0; i < columns.length; ++i) {
          record.set(i, generic(row.get(i)));
        }
        writer.write(record);
      }
    }
    return writer.toDeleteFile();
  }

  private static DeleteFile writePositions(Table table, List<Row> places) throws IOException {
    GenericFileWriterFactory factory =
        new GenericFileWriterFactory.Builder(table).deleteFileFormat(FileFormat.PARQUET).build();
    PositionDeleteWriter<Record> writer = factory.newPositionDeleteWriter(output(table), table.spec(), null);
    try (writer) {
      PositionDelete<Record> delete = PositionDelete.create();
      for (Row place : places) {
        writer.write(delete.set(place.getString(0), place.getLong(1)));
      }
    }
    return writer.toDeleteFile();
  }

  /** A value as Iceberg's generic records hold it. */
  private static Object generic(Object value) {
    if (value instanceof Instant) {
      return ((Instant) value).atOffset(ZoneOffset.UTC);
    }
    return value instanceof byte[] ? ByteBuffer.wrap((byte[]) value) : value;
  }

  private static EncryptedOutputFile output(Table table) {
    String path = table.locationProvider().newDataLocation(UUID.randomUUID() + "-deletes.parquet");
    return EncryptedFiles.encryptedOutput(table.io().newOutputFile(path), EncryptionKeyMetadata.EMPTY);
  }

  private static void commit(Table table, List<DeleteFile> files) {
    RowDelta delta = table.newRowDelta();
    files.forEach(delta::addDeletes);
    delta.commit();
  }
}
