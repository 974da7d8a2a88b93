import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.compression.gzip.GzipCompression;
import org.eclipse.jetty.compression.server.CompressionHandler;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * The reference implementation's REST catalog on the loopback, over a JDBC catalog. Arguments are properties of that
 * catalog (key=value). Prints its port, and ends when its standard input does.
 */
public class RestCatalogMain {
  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties = new HashMap<>();
    for (String argument : arguments) {
      String[] pair = argument.split("=", 2);
      properties.put(pair[0], pair[1]);
    }
    properties.putIfAbsent("type", "jdbc");
    properties.putIfAbsent("jdbc.schema-version", "V1");
    Catalog catalog = CatalogUtil.buildIcebergCatalog("rest", properties, new Configuration());

    Server server = new Server(new InetSocketAddress("127.0.0.1", 0));
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    // Namespaces of several levels are joined by an encoded control character, which is "ambiguous" to Jetty.
    context.getServletHandler().setDecodeAmbiguousURIs(true);
    CompressionHandler compression = new CompressionHandler();
    compression.putCompression(new GzipCompression());
    compression.setHandler(context);
    server.setHandler(compression);
    server.start();
    System.out.println(((ServerConnector) server.getConnectors()[0]).getLocalPort());
    while (System.in.read() >= 0) {}
    System.exit(0);
  }
}
