/* SPDX-License-Identifier: Apache-2.0 */
/* The client side of sudo.h: understands sudo's usual options, makes the command's environment as sudo would, and asks the server. */
#include "sudo.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "users.h"

/* Where the images move Debian's sudo to. */
#define REAL_SUDO "/usr/bin/sudo.distrib"
#define NOBODY 65534
#define SERVER_TRIES 30
#define SERVER_TRY_MS 100
#define SECURE_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define MAX_ENV 4096

extern char **environ;

struct options {
	const char *user, *group, *directory;
	const char *preserve; /* names after --preserve-env=, or NULL */
	bool is_login, is_shell, is_env_kept, is_home_set;
};

static char *env[MAX_ENV + 1];
static size_t env_count;
static int server_fd = -1;

static int complain(const char *what, const char *why)
{
	fprintf(stderr, "sudo: %s%s%s\n", what, why ? ": " : "", why ? why : "");
	return 1;
}

/* --- the command's environment --- */

static bool has_name(const char *entry, const char *name, size_t length)
{
	return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

static void env_put(char *entry)
{
	size_t length = strcspn(entry, "=");

	for (size_t i = 0; i < env_count; i++) {
		if (has_name(env[i], entry, length)) {
			env[i] = entry;
			return;
		}
	}
	if (env_count < MAX_ENV)
		env[env_count++] = entry;
}

static void env_set(const char *name, const char *value)
{
	char *entry;

	if (asprintf(&entry, "%s=%s", name, value) >= 0)
		env_put(entry);
}

static bool is_in_list(const char *list, const char *entry)
{
	size_t length = strcspn(entry, "=");

	while (list && *list) {
		size_t item = strcspn(list, ",");

		if (item == length && strncmp(list, entry, item) == 0)
			return true;
		list += item + (list[item] == ',');
	}
	return false;
}

/* What sudo keeps by default, and what a sandbox with a filtered network needs for apt and pip. */
static bool is_always_kept(const char *entry)
{
	return strncmp(entry, "LC_", 3) == 0 ||
	       is_in_list("TERM,COLORTERM,LANG,LANGUAGE,TZ,DISPLAY,http_proxy,https_proxy,no_proxy,HTTP_PROXY,HTTPS_PROXY,NO_PROXY,"
	                  "SSL_CERT_FILE,REQUESTS_CA_BUNDLE,NODE_EXTRA_CA_CERTS",
	                  entry);
}

static void make_env(const struct options *options, const struct vial_user *target, int argc, char **argv)
{
	char number[16];
	struct vial_user caller;

	for (char **entry = environ; *entry; entry++) {
		if (options->is_env_kept || is_always_kept(*entry) || is_in_list(options->preserve, *entry))
			env_put(*entry);
	}
	env_set("PATH", SECURE_PATH);
	if (!options->is_env_kept || options->is_home_set)
		env_set("HOME", target->home);
	env_set("USER", target->name);
	env_set("LOGNAME", target->name);
	env_set("SHELL", target->shell);
	snprintf(number, sizeof(number), "%u", getuid());
	if (vial_user_find(number, &caller) == 0)
		env_set("SUDO_USER", caller.name);
	env_set("SUDO_UID", number);
	snprintf(number, sizeof(number), "%u", getgid());
	env_set("SUDO_GID", number);
	if (argc > 0)
		env_set("SUDO_COMMAND", argv[0]);
}

/* --- the command line --- */

/* -i and -s hand the words to a shell as one line: everything it might interpret is escaped, except $ as sudo has it. */
static char *join_escaped(int argc, char **argv)
{
	size_t size = 1;
	char *line, *out;

	for (int i = 0; i < argc; i++)
		size += 2 * strlen(argv[i]) + 1;
	line = out = malloc(size);
	for (int i = 0; line && i < argc; i++) {
		if (i > 0)
			*out++ = ' ';
		for (const char *c = argv[i]; *c; c++) {
			bool is_plain =
				(*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || strchr("_-$", *c) || (*c & 0x80);

			if (!is_plain)
				*out++ = '\\';
			*out++ = *c;
		}
	}
	if (line)
		*out = '\0';
	return line;
}

/* The argv to execute; for a shell, up to four words of our own. A login shell is told by -l: the wire has no separate argv[0]. */
static char **make_argv(const struct options *options, const struct vial_user *target, int argc, char **argv)
{
	static char *shell_argv[5];
	const char *shell = options->is_login ? NULL : getenv("SHELL");
	int count = 0;

	if (!options->is_login && !options->is_shell)
		return argv;
	shell_argv[count++] = (char *)(shell && *shell ? shell : target->shell);
	if (options->is_login)
		shell_argv[count++] = (char *)"-l";
	if (argc > 0) {
		shell_argv[count++] = (char *)"-c";
		shell_argv[count++] = join_escaped(argc, argv);
	}
	shell_argv[count] = NULL;
	return shell_argv;
}

static bool is_assignment(const char *word)
{
	size_t length = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	return length > 0 && word[length] == '=';
}

static int list_rights(void)
{
	puts("This sandbox is yours: user may run any command as anyone, without a password.\n    (ALL : ALL) NOPASSWD: ALL");
	return 0;
}

static int usage(int status)
{
	fputs("usage: sudo [-EHinSs] [-u user] [-g group] [-D directory] [--preserve-env[=list]] [VAR=value] [command [arguments]]\n"
	      "       sudo -l | -v | -k | -K | -V\n",
	      status ? stderr : stdout);
	return status;
}

/* -1: go on with what is left of argv from optind. Else the exit status. */
static int parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{ "user", required_argument, NULL, 'u' },
		{ "group", required_argument, NULL, 'g' },
		{ "login", no_argument, NULL, 'i' },
		{ "shell", no_argument, NULL, 's' },
		{ "preserve-env", optional_argument, NULL, 'E' },
		{ "set-home", no_argument, NULL, 'H' },
		{ "non-interactive", no_argument, NULL, 'n' },
		{ "stdin", no_argument, NULL, 'S' },
		{ "prompt", required_argument, NULL, 'p' },
		{ "chdir", required_argument, NULL, 'D' },
		{ "list", no_argument, NULL, 'l' },
		{ "validate", no_argument, NULL, 'v' },
		{ "reset-timestamp", no_argument, NULL, 'k' },
		{ "remove-timestamp", no_argument, NULL, 'K' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ "askpass", no_argument, NULL, 'A' },
		{ "bell", no_argument, NULL, 'B' },
		{ "preserve-groups", no_argument, NULL, 'P' },
		{ "no-update", no_argument, NULL, 'N' },
		{ 0 },
	};
	int option, is_reset = 0;

	while ((option = getopt_long(argc, argv, "+ABC:D:EHKNPSVg:hiklnp:r:st:u:v", names, NULL)) != -1) {
		switch (option) {
		case 'u':
			options->user = optarg;
			break;
		case 'g':
			options->group = optarg;
			break;
		case 'D':
			options->directory = optarg;
			break;
		case 'i':
			options->is_login = true;
			break;
		case 's':
			options->is_shell = true;
			break;
		case 'H':
			options->is_home_set = true;
			break;
		case 'E':
			options->preserve = optarg;
			options->is_env_kept = !optarg;
			break;
		case 'l':
			return list_rights();
		case 'k':
			is_reset = 1;
			break;
		case 'v':
		case 'K':
			return 0;
		case 'V':
			puts("sudo of vial-agent " VIAL_VERSION);
			return 0;
		case 'h':
			return usage(0);
		case '?':
			return usage(1);
		default:
			break; /* about passwords, which nobody asks for here, or about groups and roles */
		}
	}
	return is_reset && optind == argc ? 0 : -1;
}

static int find_group(const char *name, gid_t *out_gid)
{
	FILE *file = fopen("/etc/group", "re");
	char line[1024], *password;
	size_t length = strlen(name);
	int result = -ENOENT;

	while (file && result < 0 && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, length) == 0 && line[length] == ':' && (password = strchr(line + length + 1, ':'))) {
			*out_gid = (gid_t)strtoul(password + 1, NULL, 10);
			result = 0;
		}
	}
	if (file)
		fclose(file);
	return result;
}

/* A leading # marks a number, as in sudo. */
static int find_target(const struct options *options, struct vial_user *out_target)
{
	const char *user = options->user ? options->user : "root";

	if (vial_user_find(user + (user[0] == '#'), out_target) < 0)
		return complain("unknown user", user);
	if (options->group && options->group[0] == '#')
		out_target->gid = (gid_t)strtoul(options->group + 1, NULL, 10);
	else if (options->group && find_group(options->group, &out_target->gid) < 0)
		return complain("unknown group", options->group);
	return 0;
}

/* --- running it --- */

static int explain(const char *program, int error)
{
	if (error == ENOENT && !strchr(program, '/'))
		return complain(program, "command not found");
	return complain(program, strerror(error));
}

/* Root needs nobody's help. */
static int run_directly(const struct vial_user *target, const char *cwd, char **argv)
{
	if (setgroups(target->group_count, target->groups) < 0 || setresgid(target->gid, target->gid, target->gid) < 0 ||
	    setresuid(target->uid, target->uid, target->uid) < 0)
		return complain("cannot change user", strerror(errno));
	if (chdir(cwd) < 0 && chdir("/") < 0)
		return complain(cwd, strerror(errno));
	environ = env;
	execvp(argv[0], argv);
	return explain(argv[0], errno);
}

static void pass_signal(int signal)
{
	int saved = errno;
	uint8_t byte = (uint8_t)signal;

	(void)!send(server_fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	errno = saved;
}

static int connect_server(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t size = offsetof(struct sockaddr_un, sun_path) + sizeof(VIAL_SUDO_SOCKET) - 1;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), error;

	memcpy(address.sun_path, VIAL_SUDO_SOCKET, sizeof(VIAL_SUDO_SOCKET) - 1);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, size) == 0)
		return fd < 0 ? -errno : fd;
	error = errno;
	close(fd);
	return -error;
}

bool vial_sudo_is_real(void)
{
	char *const argv[] = { (char *)REAL_SUDO, (char *)"-V", NULL };
	int status;
	pid_t pid = access(REAL_SUDO, X_OK) < 0 ? -1 : fork();

	if (pid == 0) {
		int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

		for (int fd = 0; fd <= STDERR_FILENO; fd++)
			dup2(nothing, fd);
		if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
			_exit(1);
		execve(REAL_SUDO, argv, (char *[]){ NULL });
		_exit(1);
	}
	if (pid < 0)
		return false;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/*
 * Leaves a connection, or the reason why there is none, in server_fd; false where there need be none. A server that is just starting, or
 * starting again because guest root killed it, gets a moment.
 */
static bool find_server(void)
{
	server_fd = connect_server();
	if (server_fd >= 0)
		return true;
	if (vial_sudo_is_real())
		return false;
	for (int i = 0; i < SERVER_TRIES && server_fd < 0; i++) {
		poll(NULL, 0, SERVER_TRY_MS);
		server_fd = connect_server();
	}
	return true;
}

static int send_all(int fd, const char *data, size_t size)
{
	while (size > 0) {
		ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return -errno;
		data += sent;
		size -= (size_t)sent;
	}
	return 0;
}

static int send_request(int fd, const struct vial_user *target, const char *cwd, char **argv)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * 3) + CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control = { 0 };
	struct ucred me = { .pid = getpid(), .uid = getuid(), .gid = getgid() };
	struct vial_sudo_request request = {
		.uid = target->uid, .gid = target->gid, .env_count = (uint32_t)env_count, .group_count = (uint32_t)target->group_count
	};
	struct iovec part = { .iov_base = &request, .iov_len = sizeof(request) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int fds[3] = { 0, 1, 2 };
	char *body = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&body, &size);
	mode_t mask = umask(0);

	if (!out)
		return -ENOMEM;
	fwrite(target->groups, sizeof(gid_t), target->group_count, out);
	fwrite(cwd, 1, strlen(cwd) + 1, out);
	for (; argv[request.argument_count]; request.argument_count++)
		fwrite(argv[request.argument_count], 1, strlen(argv[request.argument_count]) + 1, out);
	for (size_t i = 0; i < env_count; i++)
		fwrite(env[i], 1, strlen(env[i]) + 1, out);
	if (fclose(out) != 0 || size > VIAL_SUDO_MAX_BODY_BYTES)
		return -E2BIG;
	request.body_bytes = (uint32_t)size;
	request.mode_mask = mask;
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(header), fds, sizeof(fds));
	header = CMSG_NXTHDR(&message, header);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_CREDENTIALS;
	header->cmsg_len = CMSG_LEN(sizeof(me));
	memcpy(CMSG_DATA(header), &me, sizeof(me));
	if (sendmsg(fd, &message, MSG_NOSIGNAL) != (ssize_t)sizeof(request))
		return -errno;
	return send_all(fd, body, size);
}

/* The server's answer becomes our end. */
static int wait_for_answer(const char *program)
{
	struct vial_sudo_answer answer;
	ssize_t got;

	while ((got = recv(server_fd, &answer, sizeof(answer), MSG_WAITALL)) < 0 && errno == EINTR)
		;
	if (got != (ssize_t)sizeof(answer))
		return complain("the sandbox's root service has gone", NULL);
	if (answer.error)
		return explain(program, answer.error);
	if (WIFSIGNALED(answer.status)) {
		signal(WTERMSIG(answer.status), SIG_DFL);
		raise(WTERMSIG(answer.status));
		return 128 + WTERMSIG(answer.status);
	}
	return WEXITSTATUS(answer.status);
}

static int run_by_server(const struct vial_user *target, const char *cwd, char **argv)
{
	static const int passed[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM, SIGCONT };
	struct sigaction action = { .sa_handler = pass_signal, .sa_flags = SA_RESTART };
	int result;

	if (server_fd < 0)
		return complain("the sandbox's root service does not answer", strerror(-server_fd));
	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		sigaction(passed[i], &action, NULL);
	result = send_request(server_fd, target, cwd, argv);
	/* When the rest could not be sent, the reason may already be waiting. */
	if (result < 0 && result != -EPIPE && result != -ECONNRESET)
		return complain(argv[0], strerror(-result));
	return wait_for_answer(argv[0]);
}

/* Descriptors 0 to 2 are passed on; one that is closed becomes /dev/null. */
static void open_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

bool vial_sudo_is_called(const char *argv0)
{
	const char *slash = argv0 ? strrchr(argv0, '/') : NULL;

	return argv0 && strcmp(slash ? slash + 1 : argv0, "sudo") == 0;
}

int vial_sudo_main(int argc, char **argv)
{
	struct options options = { 0 };
	struct vial_user target;
	char cwd[PATH_MAX];
	int status;

	open_standard_fds();
	if (geteuid() != 0 && !find_server())
		execv(REAL_SUDO, argv);
	status = parse(argc, argv, &options);
	if (status >= 0)
		return status;
	argc -= optind;
	argv += optind;
	if ((status = find_target(&options, &target)) != 0)
		return status;
	make_env(&options, &target, argc, argv);
	for (; argc > 0 && is_assignment(argv[0]); argc--)
		env_put(*argv++);
	if (argc == 0 && !options.is_login && !options.is_shell)
		return usage(1);
	if (!getcwd(cwd, sizeof(cwd)))
		strcpy(cwd, "/");
	if (options.directory || options.is_login)
		snprintf(cwd, sizeof(cwd), "%s", options.directory ? options.directory : target.home);
	argv = make_argv(&options, &target, argc, argv);
	return geteuid() == 0 ? run_directly(&target, cwd, argv) : run_by_server(&target, cwd, argv);
}
