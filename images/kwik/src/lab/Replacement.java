package lab;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;

/** An object as another one has it, but for one method: where kwik asks for an interface and has one builder for it. */
final class Replacement {
    private Replacement() {}

    /** One method's body. */
    interface Body {
        Object call(Object[] arguments) throws Exception;
    }

    /** What `original` does, but for every method of the name `method`. */
    static <T> T of(Class<T> type, T original, String method, Body body) {
        return type.cast(Proxy.newProxyInstance(
                Replacement.class.getClassLoader(), new Class<?>[] {type}, (proxy, called, arguments) -> {
                    if (called.getName().equals(method)) {
                        return body.call(arguments);
                    }
                    try {
                        return called.invoke(original, arguments);
                    } catch (InvocationTargetException error) {
                        throw error.getCause();
                    }
                }));
    }
}
