/* Replays transfers (start and bytes) through the queue 10: on r1, in one event loop that only ever sleeps, as
 * time-travel=inf-cpu demands. Senders live in the namespace c, the listener in s, the queue in r.
 *
 * Arguments, key=value: file= (lines `start_s bytes`, by start), tag=, mss= (TCP_MAXSEG), cc=, end= and sample= (s).
 *
 * A second after the last byte the sink resets the connection, so neither a FIN nor a RST of the sender crosses the
 * queue. Output:
 *   K tag time_s packets bytes drops sent open     the queue, and the connections begun and not completed
 *   F tag number start_s bytes handshake_s completion_s retransmissions ce dsacks segments_out
 *                                                  completion: connect() to the last byte at the sink; -1: not done
 *   N tag counter value                            TcpExt counters of the senders */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/gen_stats.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define PORT 9000
#define LISTENER (~0ULL)
#define SINK (1ULL << 32)

typedef long long time_ns;

struct transfer {
	double start;
	long long bytes;
	time_ns begun, established, finished;
	int sender, sink;
	struct tcp_info info;
};

struct queue {
	unsigned packets, bytes, drops;
	unsigned long long sent;
};

static struct transfer *transfers;
static int count, by_port[65536], epoll;
static char payload[1 << 20];

static time_ns now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * SECOND + at.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static const char *option(int argc, char **argv, const char *key, const char *otherwise)
{
	size_t length = strlen(key);
	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], key, length) && argv[i][length] == '=')
			return argv[i] + length + 1;
	return otherwise;
}

static void enter(const char *namespace)
{
	char path[128];
	snprintf(path, sizeof path, "/run/netns/%s", namespace);
	int file = open(path, O_RDONLY);
	if (file < 0 || setns(file, CLONE_NEWNET))
		fail(path);
	close(file);
}

static void read_schedule(const char *path)
{
	FILE *file = fopen(path, "r");
	if (!file)
		fail(path);
	int room = 0;
	struct transfer next = { .sender = -1, .sink = -1 };
	while (fscanf(file, "%lf %lld", &next.start, &next.bytes) == 2) {
		if (next.bytes > (long long)sizeof payload)
			fail("more bytes than this program sends");
		if (count == room)
			transfers = realloc(transfers, (room = room ? 2 * room : 4096) * sizeof *transfers);
		transfers[count++] = next;
	}
	fclose(file);
}

static void read_stats(struct rtattr *stats, struct queue *queue)
{
	int left = RTA_PAYLOAD(stats);
	for (struct rtattr *one = RTA_DATA(stats); RTA_OK(one, left); one = RTA_NEXT(one, left)) {
		if (one->rta_type == TCA_STATS_QUEUE) {
			struct gnet_stats_queue *found = RTA_DATA(one);
			queue->packets = found->qlen;
			queue->bytes = found->backlog;
			queue->drops = found->drops;
		} else if (one->rta_type == TCA_STATS_BASIC) {
			queue->sent = ((struct gnet_stats_basic *)RTA_DATA(one))->packets;
		}
	}
}

/* The statistics of the queue with the handle 10: of an interface. */
static struct queue queue_of(int netlink, int interface)
{
	struct {
		struct nlmsghdr header;
		struct tcmsg message;
	} request = { { sizeof request, RTM_GETQDISC, NLM_F_REQUEST | NLM_F_DUMP, 1, 0 }, { 0 } };
	static char buffer[65536];
	struct queue queue = { 0 };
	request.message.tcm_ifindex = interface;
	if (send(netlink, &request, sizeof request, 0) < 0)
		fail("netlink");
	for (;;) {
		int length = recv(netlink, buffer, sizeof buffer, 0);
		if (length <= 0)
			fail("netlink");
		for (struct nlmsghdr *one = (void *)buffer; NLMSG_OK(one, length); one = NLMSG_NEXT(one, length)) {
			if (one->nlmsg_type == NLMSG_DONE || one->nlmsg_type == NLMSG_ERROR)
				return queue;
			struct tcmsg *qdisc = NLMSG_DATA(one);
			if (qdisc->tcm_ifindex != interface || qdisc->tcm_handle != 0x10 << 16)
				continue;
			int left = one->nlmsg_len - NLMSG_LENGTH(sizeof *qdisc);
			for (struct rtattr *part = TCA_RTA(qdisc); RTA_OK(part, left); part = RTA_NEXT(part, left))
				if (part->rta_type == TCA_STATS2)
					read_stats(part, &queue);
		}
	}
}

static void watch(int operation, int socket, unsigned events, unsigned long long about)
{
	struct epoll_event event = { .events = events, .data.u64 = about };
	if (epoll_ctl(epoll, operation, socket, &event))
		fail("epoll_ctl");
}

static void begin(int number, const struct sockaddr_in *sink, int mss, const char *control)
{
	struct transfer *it = &transfers[number];
	int buffer = 1 << 20;
	it->sender = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (it->sender < 0)
		fail("socket");
	setsockopt(it->sender, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer);
	if (setsockopt(it->sender, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof mss) ||
	    setsockopt(it->sender, IPPROTO_TCP, TCP_CONGESTION, control, strlen(control)))
		fail(control);
	it->begun = now();
	if (connect(it->sender, (void *)sink, sizeof *sink) && errno != EINPROGRESS)
		fail("connect");
	struct sockaddr_in own;
	socklen_t length = sizeof own;
	getsockname(it->sender, (void *)&own, &length);
	by_port[ntohs(own.sin_port)] = number;
	watch(EPOLL_CTL_ADD, it->sender, EPOLLOUT, number);
}

static void accept_all(int listener)
{
	struct sockaddr_in peer;
	socklen_t length = sizeof peer;
	for (int sink; (sink = accept4(listener, (void *)&peer, &length, SOCK_NONBLOCK)) >= 0; length = sizeof peer) {
		int number = by_port[ntohs(peer.sin_port)], all = transfers[number].bytes;
		if (transfers[number].sink >= 0 || transfers[number].finished) {
			close(sink);
			continue;
		}
		transfers[number].sink = sink;
		/* It wakes once, for the last byte. */
		setsockopt(sink, SOL_SOCKET, SO_RCVLOWAT, &all, sizeof all);
		watch(EPOLL_CTL_ADD, sink, EPOLLIN, SINK | number);
	}
}

static void note_info(struct transfer *it)
{
	socklen_t length = sizeof it->info;
	if (it->sender >= 0)
		getsockopt(it->sender, IPPROTO_TCP, TCP_INFO, &it->info, &length);
}

/* The sender's connection is established, or was reset. */
static void on_sender(struct transfer *it, int number)
{
	int error = 0;
	socklen_t length = sizeof error;
	getsockopt(it->sender, SOL_SOCKET, SO_ERROR, &error, &length);
	if (!it->established && !error) {
		it->established = now();
		if (send(it->sender, payload, it->bytes, MSG_NOSIGNAL) != it->bytes)
			fail("send");
		watch(EPOLL_CTL_MOD, it->sender, 0, number);
		return;
	}
	if (!it->finished)
		fprintf(stderr, "transfer %d ended early: %s\n", number + 1, strerror(error));
	close(it->sender);
	it->sender = -1;
}

static void reset_sink(struct transfer *it)
{
	struct linger at_once = { 1, 0 };
	note_info(it);
	setsockopt(it->sink, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
	close(it->sink);
	it->sink = -1;
}

static void print_counters(const char *tag)
{
	static char names[1 << 15], values[1 << 15];
	FILE *file = fopen("/proc/thread-self/net/netstat", "r");
	while (file && fgets(names, sizeof names, file) && fgets(values, sizeof values, file)) {
		char *name_at, *value_at;
		char *name = strtok_r(names, " \n", &name_at), *value = strtok_r(values, " \n", &value_at);
		for (; name && value; name = strtok_r(0, " \n", &name_at), value = strtok_r(0, " \n", &value_at))
			if (*value >= '1' && *value <= '9')
				printf("N %s %s %s\n", tag, name, value);
	}
}

int main(int argc, char **argv)
{
	const char *tag = option(argc, argv, "tag", "-"), *control = option(argc, argv, "cc", "cubic");
	int mss = atoi(option(argc, argv, "mss", "446")), one = 1;
	time_ns end = atof(option(argc, argv, "end", "60")) * SECOND;
	time_ns step = atof(option(argc, argv, "sample", "0.5")) * SECOND;
	struct rlimit files = { 400000, 400000 };
	prctl(PR_SET_TIMERSLACK, 1);
	setrlimit(RLIMIT_NOFILE, &files);
	read_schedule(option(argc, argv, "file", ""));
	int *done = malloc((count + 1) * sizeof *done), finished = 0, reset = 0, begun = 0, open = 0;

	enter("r");
	int interface = if_nametoindex("r1"), netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	enter("s");
	struct sockaddr_in sink = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(listener, (void *)&sink, sizeof sink) || listen(listener, 60000))
		fail("listen");
	epoll = epoll_create1(0);
	watch(EPOLL_CTL_ADD, listener, EPOLLIN, LISTENER);
	enter("c");
	inet_pton(AF_INET, "10.9.1.2", &sink.sin_addr);

	time_ns zero = now() + SECOND / 100;
	zero -= zero % (SECOND / 100);
	time_ns sample = zero + step;
	for (;;) {
		time_ns at = now(), next = zero + end;
		if (at >= next)
			break;
		if (at >= sample) {
			struct queue queue = queue_of(netlink, interface);
			printf("K %s %.3f %u %u %u %llu %d\n", tag, (double)(at - zero) / SECOND, queue.packets,
			       queue.bytes, queue.drops, queue.sent, open);
			sample += step;
		}
		next = sample < next ? sample : next;
		for (; begun < count && at >= zero + (time_ns)(transfers[begun].start * SECOND); open++)
			begin(begun++, &sink, mss, control);
		if (begun < count && zero + (time_ns)(transfers[begun].start * SECOND) < next)
			next = zero + (time_ns)(transfers[begun].start * SECOND);
		for (; reset < finished && at >= transfers[done[reset]].finished + SECOND; reset++)
			reset_sink(&transfers[done[reset]]);
		if (reset < finished && transfers[done[reset]].finished + SECOND < next)
			next = transfers[done[reset]].finished + SECOND;

		static struct epoll_event events[4096];
		time_ns wait = next - now();
		struct timespec until = { 0 };
		if (wait > 0)
			until = (struct timespec){ wait / SECOND, wait % SECOND };
		int ready = epoll_pwait2(epoll, events, 4096, &until, 0);
		for (int i = 0; i < ready; i++) {
			unsigned long long about = events[i].data.u64;
			if (about == LISTENER) {
				accept_all(listener);
			} else if (about & SINK) {
				struct transfer *it = &transfers[(unsigned)about];
				it->finished = now();
				done[finished++] = (unsigned)about;
				open--;
				epoll_ctl(epoll, EPOLL_CTL_DEL, it->sink, 0);
			} else {
				on_sender(&transfers[about], about);
			}
		}
	}
	for (int i = 0; i < begun; i++) {
		struct transfer *it = &transfers[i];
		if (!it->finished)
			note_info(it);
		printf("F %s %d %.6f %lld %.6f %.6f %u %u %u %u\n", tag, i + 1, (double)(it->begun - zero) / SECOND,
		       it->bytes, it->established ? (double)(it->established - it->begun) / SECOND : -1.,
		       it->finished ? (double)(it->finished - it->begun) / SECOND : -1., it->info.tcpi_total_retrans,
		       it->info.tcpi_delivered_ce, it->info.tcpi_dsack_dups, it->info.tcpi_segs_out);
	}
	print_counters(tag);
	fflush(stdout);
	_exit(0);
}
