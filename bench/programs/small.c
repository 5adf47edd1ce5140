/* small GO COUNT: once the file GO exists, writes COUNT lines of 100 bytes, one system call each. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char line[100];
    if (argc < 3)
        return 2;
    memset(line, 'x', 99);
    line[99] = '\n';
    for (int i = 0; i < 60000 && access(argv[1], F_OK) != 0; i++)
        usleep(2000);
    for (long left = atol(argv[2]); left > 0; left--)
        if (write(1, line, 100) != 100)
            return 1;
    return 0;
}
