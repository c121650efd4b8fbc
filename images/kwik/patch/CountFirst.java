import java.io.IOException;
import java.lang.classfile.ClassFile;
import java.lang.classfile.ClassTransform;
import java.lang.classfile.instruction.InvokeInstruction;
import java.lang.constant.ClassDesc;
import java.lang.constant.ConstantDescs;
import java.lang.constant.MethodTypeDesc;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.jar.JarFile;

/**
 * Has one method of kwik count a request before it is made: {@code CountFirst.java KWIK_JAR FOLDER} writes the class
 * into the folder.
 *
 * <p>A stream asks for a packet where its count of requests is 0, and counts then. The sender's thread counts down
 * as it serves one. Where that comes first, the count is −1 for a while. What is to be sent in that while asks for
 * nothing, and waits for the next cause to ask: for ever, where the file is at its end. On one processor, which goes
 * on with the thread that was woken, about a third of the downloads stop so. Here the count is claimed in one step.
 */
public final class CountFirst {
    private static final String NAME = "tech/kwik/core/stream/StreamOutputStreamImpl.class";
    private static final String METHOD = "scheduleSendStreamFrameRequest";
    private static final ClassDesc COUNT = ClassDesc.of("java.util.concurrent.atomic.AtomicInteger");

    private CountFirst() {}

    public static void main(String[] arguments) throws IOException {
        byte[] original;
        try (JarFile jar = new JarFile(arguments[0]); var in = jar.getInputStream(jar.getEntry(NAME))) {
            original = in.readAllBytes();
        }
        List<String> replaced = new ArrayList<>();
        ClassTransform transform = ClassTransform.transformingMethodBodies(
                method -> method.methodName().equalsString(METHOD), (code, element) -> {
                    String called = element instanceof InvokeInstruction call && call.owner().asSymbol().equals(COUNT)
                            ? call.name().stringValue() : "";
                    switch (called) {
                        case "get" -> code.iconst_0().iconst_1()
                                .invokevirtual(COUNT, "compareAndSet", MethodTypeDesc.of(
                                        ConstantDescs.CD_boolean, ConstantDescs.CD_int, ConstantDescs.CD_int))
                                // True where it was 0, as what follows expects it.
                                .iconst_1().ixor();
                        case "incrementAndGet" -> code.invokevirtual(
                                COUNT, "get", MethodTypeDesc.of(ConstantDescs.CD_int));
                        default -> code.with(element);
                    }
                    if (!called.isEmpty()) {
                        replaced.add(called);
                    }
                });
        byte[] changed = ClassFile.of().transformClass(ClassFile.of().parse(original), transform);
        if (!replaced.equals(List.of("get", "incrementAndGet"))) {
            throw new IOException(METHOD + " is another one: it calls " + replaced);
        }
        Path file = Path.of(arguments[1]).resolve(NAME);
        Files.createDirectories(file.getParent());
        Files.write(file, changed);
    }
}
