#!/usr/bin/env node
// Writes the rows of a Parquet file as JSON lines on standard output, one row group in memory at a time:
//
//   npm install hyparquet hyparquet-compressors
//   node scripts/parquet_to_jsonl.mjs FILE.parquet > FILE.jsonl
//
// Snappy and uncompressed columns need hyparquet alone; gzip, zstd, lz4 and brotli hyparquet-compressors too. Integers
// above 2^53 keep their digits, dates become ISO 8601, bytes that are not text base64.
import { once } from 'node:events'

const path = process.argv[2]
if (process.argv.length !== 3 || path.startsWith('-')) {
  console.error('usage: parquet_to_jsonl.mjs FILE.parquet > FILE.jsonl')
  process.exit(2)
}

let parquet
let compressors
try {
  parquet = await import('hyparquet')
} catch {
  console.error('parquet_to_jsonl: error: the package hyparquet is missing; run: npm install hyparquet hyparquet-compressors')
  process.exit(1)
}
try {
  compressors = (await import('hyparquet-compressors')).compressors
} catch {
  compressors = undefined // then only what hyparquet unpacks by itself
}

// JSON of a value. JSON.stringify knows no big integers.
function json(value) {
  if (value === null || value === undefined) return 'null'
  if (typeof value === 'bigint') return value.toString()
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'null' : JSON.stringify(value)
  if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
    if (value instanceof Uint8Array) return JSON.stringify(Buffer.from(value).toString('base64'))
    return `[${Array.from(value, json).join(',')}]`
  }
  if (Array.isArray(value)) return `[${value.map(json).join(',')}]`
  if (typeof value === 'object') {
    return `{${Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}:${json(item)}`).join(',')}}`
  }
  return JSON.stringify(value) ?? 'null'
}

process.stdout.on('error', error => process.exit(error.code === 'EPIPE' ? 0 : 1))
try {
  const file = await parquet.asyncBufferFromFile(path)
  const metadata = await parquet.parquetMetadataAsync(file)
  let rowStart = 0
  for (const group of metadata.row_groups) {
    const rowEnd = rowStart + Number(group.num_rows)
    const rows = await parquet.parquetReadObjects({ file, metadata, compressors, rowStart, rowEnd })
    for (const row of rows) {
      if (!process.stdout.write(json(row) + '\n')) await once(process.stdout, 'drain')
    }
    rowStart = rowEnd
  }
} catch (error) {
  console.error(`parquet_to_jsonl: error: '${path}': ${error.message}`)
  process.exit(1)
}
