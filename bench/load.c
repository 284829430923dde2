/* Many WebSocket clients in one process that counts what they get, so that the load generator is not what is measured.
 *
 *   load clients PORT COUNT KIND PATH KEY STEP FILE [FILE2]
 *       KIND is `frames` (one event a frame) or `nats` (NATS's protocol inside the frames).
 *       Client i sends line i of FILE (lines are used in turns) once it is connected.
 *       Says `open SECONDS` once each has been answered, then `got DELIVERIES NANOSECONDS` every STEP deliveries.
 *       On its input: `count` says `counted`; `mark` takes latencies from now on, until `report` says
 *       `latency P50_US P99_US MAX_US COUNT`; `churn SECONDS` sends the lines of FILE2 and FILE in turns, each client waiting for its answer, and says
 *       `churned FRAMES SECONDS REFUSED`; `quit` ends it.
 *   load publish PORT SUBJECT FILE
 *       A NATS publisher: `burst N` on its input publishes the first line of FILE N times. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER = 1 << 18, LINE = 256, LINES_MAX = 4096, BUCKETS = 2000000, DIGITS = 19, TAIL = 3 };

struct client {
    int fd, answered, head_size, line_size, turn;
    uint8_t head[16];
    uint64_t frame_left, skip;
    uint8_t opcode;
    char *line;
};

static struct client *clients;
static int count, nats, answered, churning, timing;
static uint64_t delivered, next_say, step, churned, refused;
static uint32_t *buckets;
static uint64_t samples, slowest_us;
static char *lines[2][LINES_MAX];
static int line_count[2];
static uint8_t buffer[BUFFER];

static void die(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void say(const char *word) {
    printf("%s %llu %llu\n", word, (unsigned long long)delivered, (unsigned long long)now_ns());
}

static int connected(int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void send_all(int fd, const void *data, size_t size) {
    for (const char *at = data; size;) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) continue;
        if (sent < 0) die("send");
        at += sent, size -= (size_t)sent;
    }
}

/* A masked text frame; the mask of zeros leaves the text as it is. */
static void send_text(int fd, const char *text) {
    size_t size = strlen(text), at = 2;
    uint8_t *wire = malloc(size + 16);
    wire[0] = 0x81;
    if (size < 126) {
        wire[1] = (uint8_t)(0x80 | size);
    } else {
        wire[1] = 0x80 | 126, wire[2] = (uint8_t)(size >> 8), wire[3] = (uint8_t)size, at = 4;
    }
    memset(wire + at, 0, 4);
    memcpy(wire + at + 4, text, size);
    send_all(fd, wire, at + 4 + size);
    free(wire);
}

static void read_lines(int which, const char *path) {
    FILE *file = fopen(path, "r");
    size_t room = 0;
    if (!file) die(path);
    for (int at = 0; at < LINES_MAX; at++) {
        char *line = NULL;
        ssize_t size = getline(&line, &room, file);
        room = 0;
        if (size <= 0) break;
        line[strcspn(line, "\n")] = 0;
        lines[which][line_count[which]++] = line;
    }
    fclose(file);
    if (!line_count[which]) die("no lines");
}

/* In lines of NATS, ` | ` stands for the end of a line, as the file has one text a line. */
static char *with_newlines(const char *text) {
    char *made = malloc(strlen(text) + 4), *to = made;
    for (; *text; text++) {
        if (*text == '|') *to++ = '\r', *to++ = '\n';
        else *to++ = *text;
    }
    *to = 0;
    return made;
}

static void say_line(struct client *client) {
    int which = client->turn & 1 && line_count[1] ? 1 : 0;
    const char *text = lines[which][(client - clients) % line_count[which]];
    char *ready = nats ? with_newlines(text) : NULL;
    send_text(client->fd, nats ? ready : text);
    free(ready);
    client->turn++;
}

static void upgrade(struct client *client, int port, const char *path, const char *key) {
    char text[2048];
    client->fd = connected(port);
    int size = snprintf(text, sizeof text,
                        "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
                        "Authorization: Bearer %s\r\n\r\n",
                        path, port, key);
    send_all(client->fd, text, (size_t)size);
    /* One byte at a time up to the blank line: what follows it are frames. */
    for (size = 0; size < 4 || memcmp(text + size - 4, "\r\n\r\n", 4); size++)
        if (size == sizeof text || read(client->fd, text + size, 1) != 1) die("handshake");
    if (strncmp(text, "HTTP/1.1 101", 12)) {
        fprintf(stderr, "load: refused: %.60s\n", text);
        exit(1);
    }
    fcntl(client->fd, F_SETFL, O_NONBLOCK);
    say_line(client);
}

static void count_delivery(uint64_t n) {
    delivered += n;
    if (step && delivered >= next_say) {
        say("got");
        next_say = delivered - delivered % step + step;
    }
}

static void first_answer(struct client *client) {
    client->answered = 1;
    answered++;
}

/* The event's time is its last field: 19 digits before `"}}`. */
static void take_latency(const uint8_t *end) {
    uint64_t sent = 0;
    for (const uint8_t *at = end - TAIL - DIGITS; at < end - TAIL; at++) {
        if (*at < '0' || *at > '9') return;
        sent = sent * 10 + (*at - '0');
    }
    uint64_t us = (now_ns() - sent) / 1000;
    buckets[us < BUCKETS ? us : BUCKETS - 1]++;
    samples++;
    if (us > slowest_us) slowest_us = us;
}

static void take_frame(struct client *client, const uint8_t *payload, size_t size, int whole) {
    if (client->opcode != 1) return;
    if (!client->answered) {
        if (whole && size > 16 && !memcmp(payload, "{\"type\":\"error\"", 15)) {
            fprintf(stderr, "load: %.*s\n", (int)size, payload);
            exit(1);
        }
        first_answer(client);
    } else if (churning) {
        churned++;
        if (whole && size > 16 && !memcmp(payload, "{\"type\":\"error\"", 15)) refused++;
        if (churning == 1) say_line(client);
    } else {
        if (timing && whole && size > 60) take_latency(payload + size);
        count_delivery(1);
    }
}

/* NATS: lines, and after `MSG … SIZE` that many bytes and a line's end. */
static void take_nats(struct client *client, const uint8_t *data, size_t size) {
    while (size) {
        if (client->skip) {
            size_t part = client->skip < size ? client->skip : size;
            client->skip -= part, data += part, size -= part;
            continue;
        }
        const uint8_t *end = memchr(data, '\n', size);
        size_t part = end ? (size_t)(end - data) + 1 : size;
        const char *line = (const char *)data;
        size_t length = part;
        if (!end || client->line_size) { /* a line in two pieces */
            if (!client->line) client->line = malloc(65536);
            if (client->line_size + part > 65535) die("a line too long");
            memcpy(client->line + client->line_size, data, part);
            client->line_size += (int)part;
            line = client->line, length = (size_t)client->line_size;
        }
        data += part, size -= part;
        if (!end) return;
        client->line_size = 0;
        if (!memcmp(line, "MSG ", 4)) {
            const char *digit = line + length - 3;
            uint64_t bytes = 0;
            for (uint64_t place = 1; *digit >= '0' && *digit <= '9'; digit--, place *= 10)
                bytes += (uint64_t)(*digit - '0') * place;
            client->skip = bytes + 2;
            count_delivery(1);
        } else if (!memcmp(line, "PONG", 4) && !client->answered) {
            first_answer(client);
        } else if (!memcmp(line, "PING", 4)) {
            send_text(client->fd, "PONG\r\n");
        } else if (!memcmp(line, "-ERR", 4)) {
            fprintf(stderr, "load: nats says %.*s\n", (int)length, line);
            exit(1);
        }
    }
}

/* How many bytes the head of a frame has, as far as it is known. */
static int head_bytes(const uint8_t *head, int have) {
    if (have < 2) return 2;
    int small = head[1] & 0x7f;
    return small == 126 ? 4 : small == 127 ? 10 : 2;
}

static void take(struct client *client, const uint8_t *data, size_t size) {
    while (size) {
        if (client->frame_left) {
            size_t part = client->frame_left < size ? client->frame_left : size;
            if (nats) take_nats(client, data, part);
            client->frame_left -= part, data += part, size -= part;
            if (!client->frame_left && !nats) take_frame(client, data - part, part, 0);
            continue;
        }
        while (size && client->head_size < head_bytes(client->head, client->head_size))
            client->head[client->head_size++] = *data++, size--;
        int need = head_bytes(client->head, client->head_size);
        if (client->head_size < need) return;
        uint64_t length = client->head[1] & 0x7f;
        for (int at = 2; at < need; at++) length = (at == 2 ? 0 : length << 8) | client->head[at];
        client->head_size = 0;
        client->opcode = client->head[0] & 15;
        if (client->opcode == 9) { /* a ping: answer it, its text is empty */
            const uint8_t pong[6] = {0x8a, 0x80, 0, 0, 0, 0};
            send_all(client->fd, pong, sizeof pong);
        }
        if (client->opcode == 8) {
            fprintf(stderr, "load: closed by the server\n");
            exit(1);
        }
        if (!nats && length <= size) {
            take_frame(client, data, length, 1);
            data += length, size -= length;
        } else {
            client->frame_left = length;
        }
    }
}

static void read_client(struct client *client) {
    ssize_t size = recv(client->fd, buffer, BUFFER, 0);
    if (size > 0) take(client, buffer, (size_t)size);
    else if (size == 0 || errno != EAGAIN) {
        fprintf(stderr, "load: a connection has ended\n");
        exit(1);
    }
}

static void report(void) {
    uint64_t seen = 0, p50 = 0, p99 = 0;
    for (uint64_t us = 0; us < BUCKETS && seen < samples; us++) {
        if (!buckets[us]) continue;
        seen += buckets[us];
        if (!p50 && seen * 2 >= samples) p50 = us;
        if (!p99 && seen * 100 >= samples * 99) p99 = us;
    }
    printf("latency %llu %llu %llu %llu\n", (unsigned long long)p50, (unsigned long long)p99,
           (unsigned long long)slowest_us, (unsigned long long)samples);
}

static int wait_once(int queue, int wait_ms);

static void churn(int queue, double seconds) {
    uint64_t began = now_ns(), until = began + (uint64_t)(seconds * 1e9);
    churned = refused = 0;
    churning = 1;
    for (int at = 0; at < count; at++) say_line(clients + at);
    while (now_ns() < until) wait_once(queue, 100);
    uint64_t frames = churned, took = now_ns() - began;
    churning = 2; /* let what is under way arrive */
    while (churned < frames + (uint64_t)count && wait_once(queue, 1000) > 0) continue;
    churning = 0;
    printf("churned %llu %.6f %llu\n", (unsigned long long)frames, (double)took / 1e9, (unsigned long long)refused);
}

static void command(int queue) {
    char line[LINE];
    ssize_t size = read(0, line, sizeof line - 1);
    if (size <= 0) exit(0);
    line[size] = 0;
    double seconds;
    for (char *word = strtok(line, "\n"); word; word = strtok(NULL, "\n")) {
        if (!strcmp(word, "mark")) {
            memset(buckets, 0, BUCKETS * sizeof *buckets);
            samples = slowest_us = 0;
            timing = 1;
        } else if (!strcmp(word, "report")) {
            report();
            timing = 0;
        } else if (!strcmp(word, "count")) say("counted");
        else if (sscanf(word, "churn %lf", &seconds) == 1) churn(queue, seconds);
        else if (!strcmp(word, "quit")) exit(0);
    }
}

/* Serve what is ready; returns how many clients were. */
static int wait_once(int queue, int wait_ms) {
    struct epoll_event ready[512];
    int found = epoll_wait(queue, ready, 512, wait_ms), served = 0;
    for (int at = 0; at < found; at++) {
        if (ready[at].data.ptr) read_client(ready[at].data.ptr), served++;
        else if (!churning) command(queue);
    }
    return served;
}

static void run_clients(char **words, int given) {
    int port = atoi(words[0]);
    count = atoi(words[1]);
    nats = !strcmp(words[2], "nats");
    step = next_say = strtoull(words[5], NULL, 10);
    read_lines(0, words[6]);
    if (given > 7) read_lines(1, words[7]);
    buckets = calloc(BUCKETS, sizeof *buckets);
    clients = calloc((size_t)count, sizeof *clients);
    int queue = epoll_create1(0);
    uint64_t began = now_ns();
    for (int at = 0; at < count; at++) {
        upgrade(clients + at, port, words[3], words[4]);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = clients + at};
        if (epoll_ctl(queue, EPOLL_CTL_ADD, clients[at].fd, &event)) die("epoll");
        /* Few at a time: a server bounds how many wait to be verified. */
        while (at - answered > 64) wait_once(queue, 1000);
    }
    while (answered < count) wait_once(queue, 1000);
    printf("open %.6f\n", (double)(now_ns() - began) / 1e9);
    struct epoll_event input = {.events = EPOLLIN};
    if (epoll_ctl(queue, EPOLL_CTL_ADD, 0, &input)) die("epoll");
    for (;;) wait_once(queue, -1);
}

static int run_publisher(char **words) {
    char line[LINE], head[LINE], answer[4096];
    int fd = connected(atoi(words[0]));
    read_lines(0, words[2]);
    size_t size = strlen(lines[0][0]);
    int head_size = snprintf(head, sizeof head, "PUB %s %zu\r\n", words[1], size);
    size_t one = (size_t)head_size + size + 2, room = 64;
    char *wire = malloc(one * room);
    for (size_t at = 0; at < room; at++) {
        char *to = wire + at * one;
        memcpy(to, head, (size_t)head_size);
        memcpy(to + head_size, lines[0][0], size);
        memcpy(to + head_size + size, "\r\n", 2);
    }
    const char hello[] = "CONNECT {\"verbose\":false}\r\nPING\r\n";
    send_all(fd, hello, sizeof hello - 1);
    printf("open 0\n");
    while (fgets(line, sizeof line, stdin)) {
        size_t left = strtoull(line + 6, NULL, 10);
        while (left) {
            size_t part = left < room ? left : room;
            send_all(fd, wire, part * one);
            left -= part;
        }
        while (recv(fd, answer, sizeof answer, MSG_DONTWAIT) > 0)
            if (!strncmp(answer, "PING", 4)) send_all(fd, "PONG\r\n", 6);
    }
    return 0;
}

int main(int given, char **words) {
    struct rlimit files;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!getrlimit(RLIMIT_NOFILE, &files)) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    if (given >= 9 && !strcmp(words[1], "clients")) run_clients(words + 2, given - 2);
    if (given == 5 && !strcmp(words[1], "publish")) return run_publisher(words + 2);
    fprintf(stderr, "load: see the comment at its top\n");
    return 2;
}
