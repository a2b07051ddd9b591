package io.github.samsarrow.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.Platform;

/** Column of decimals, with 16 bytes each, least significant byte first. */
final class DecimalVector extends RawVector {
  private static final int WIDTH = 2 * Long.BYTES;

  private long data;

  DecimalVector(DecimalType type) {
    super(type);
  }

  @Override
  void attach(long slots, int rows) {
    super.attach(slots, rows);
    data = slot(slots, 2);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) {
      return null;
    }
    long at = data + (long) index(row) * WIDTH;
    long low = Platform.getLong(null, at);
    if (precision <= Decimal.MAX_LONG_DIGITS()) {
      return Decimal.createUnsafe(low, precision, scale);
    }
    byte[] digits =
        ByteBuffer.allocate(WIDTH).putLong(Platform.getLong(null, at + Long.BYTES)).putLong(low).array();
    return Decimal.apply(new BigDecimal(new BigInteger(digits), scale), precision, scale);
  }
}
