/* Makes setsockopt(TCP_NODELAY) always disable Nagle's algorithm, for a program that enables the algorithm.
 *
 *   cc -shared -fPIC -O2 -o nodelay.so nodelay.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

int setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    static int (*next)(int, int, int, const void *, socklen_t);
    const int on = 1;

    if (!next)
        next = (int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");
    if (level == IPPROTO_TCP && name == TCP_NODELAY)
        return next(fd, level, name, &on, sizeof on);
    return next(fd, level, name, value, size);
}
