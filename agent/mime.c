/* SPDX-License-Identifier: Apache-2.0 */
/* See mime.h. What data work produces; everything else is bytes. */
#include "mime.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct {
	const char *suffix, *mime;
} types[] = {
	{ "txt", "text/plain" },
	{ "log", "text/plain" },
	{ "md", "text/markdown" },
	{ "csv", "text/csv" },
	{ "tsv", "text/tab-separated-values" },
	{ "html", "text/html" },
	{ "htm", "text/html" },
	{ "css", "text/css" },
	{ "xml", "application/xml" },
	{ "json", "application/json" },
	{ "jsonl", "application/x-ndjson" },
	{ "ndjson", "application/x-ndjson" },
	{ "geojson", "application/geo+json" },
	{ "ipynb", "application/x-ipynb+json" },
	{ "yaml", "application/yaml" },
	{ "yml", "application/yaml" },
	{ "toml", "application/toml" },
	{ "ini", "text/plain" },
	{ "py", "text/x-python" },
	{ "js", "text/javascript" },
	{ "mjs", "text/javascript" },
	{ "cjs", "text/javascript" },
	{ "ts", "text/x-typescript" },
	{ "sh", "application/x-sh" },
	{ "sql", "application/sql" },
	{ "c", "text/x-c" },
	{ "h", "text/x-c" },
	{ "cpp", "text/x-c++" },
	{ "java", "text/x-java" },
	{ "go", "text/x-go" },
	{ "rs", "text/x-rust" },
	{ "r", "text/x-r" },
	{ "tex", "text/x-tex" },
	{ "png", "image/png" },
	{ "jpg", "image/jpeg" },
	{ "jpeg", "image/jpeg" },
	{ "gif", "image/gif" },
	{ "svg", "image/svg+xml" },
	{ "webp", "image/webp" },
	{ "bmp", "image/bmp" },
	{ "tif", "image/tiff" },
	{ "tiff", "image/tiff" },
	{ "ico", "image/x-icon" },
	{ "pdf", "application/pdf" },
	{ "zip", "application/zip" },
	{ "gz", "application/gzip" },
	{ "tgz", "application/gzip" },
	{ "bz2", "application/x-bzip2" },
	{ "xz", "application/x-xz" },
	{ "zst", "application/zstd" },
	{ "tar", "application/x-tar" },
	{ "7z", "application/x-7z-compressed" },
	{ "xls", "application/vnd.ms-excel" },
	{ "xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" },
	{ "docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document" },
	{ "pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation" },
	{ "parquet", "application/vnd.apache.parquet" },
	{ "feather", "application/vnd.apache.arrow.file" },
	{ "arrow", "application/vnd.apache.arrow.file" },
	{ "db", "application/vnd.sqlite3" },
	{ "sqlite", "application/vnd.sqlite3" },
	{ "h5", "application/x-hdf5" },
	{ "hdf5", "application/x-hdf5" },
	{ "wasm", "application/wasm" },
	{ "mp3", "audio/mpeg" },
	{ "wav", "audio/wav" },
	{ "ogg", "audio/ogg" },
	{ "flac", "audio/flac" },
	{ "mp4", "video/mp4" },
	{ "webm", "video/webm" },
	{ "mov", "video/quicktime" },
	{ "avi", "video/x-msvideo" },
	{ "ttf", "font/ttf" },
	{ "woff2", "font/woff2" },
};

const char *vial_mime_of(const char *path)
{
	const char *name = strrchr(path, '/');
	const char *dot = strrchr(name ? name : path, '.');

	for (size_t i = 0; dot && i < sizeof(types) / sizeof(*types); i++) {
		if (strcasecmp(dot + 1, types[i].suffix) == 0)
			return types[i].mime;
	}
	return "application/octet-stream";
}
