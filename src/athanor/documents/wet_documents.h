// Reads the documents of a WET file: the text that a crawl took from pages (WARC 1.0 and 1.1, records of type
// conversion).
//
//   if (is_warc(source.head(kFormatProbeBytes)))
//     for_each_wet_document(source, "CC-MAIN-...warc.wet", {.with_metadata = true},
//                           [](std::string_view text, const RecordPlace& place) { ... });
//
// The id is WARC-Record-ID as it stands. The metadata are "url" (WARC-Target-URI), "date" (WARC-Date),
// "WARC-Record-ID" and "language" (WARC-Identified-Content-Language), those of them that the record has. Records of
// type warcinfo and metadata are skipped. One record is held in memory at a time.
//
// Behind a record that is broken reading goes on at the next line that begins with "WARC/1.".
//
// Thread rule: the callback runs in the calling thread. Errors: RecordError naming the file and the line for a record
// without type or length, cut short, too long, not UTF-8 or with a zero byte (record.h); always for a file whose first
// records are pages as they were fetched (WARC, not WET).
#pragma once

#include <string>
#include <string_view>

#include "athanor/documents/byte_source.h"
#include "athanor/documents/record.h"

namespace athanor::documents {

bool is_warc(std::string_view head);

void for_each_wet_document(ByteSource& source, const std::string& name, const RecordOptions& options,
                           const RecordCallback& callback);

}  // namespace athanor::documents
