"""Processing as released with a model: tokenizer, chat template, images and clips of its folder.

Reading order: `files.py` (what is read of the folder), `template.py` (conversations to text),
`chat.py` (text to tokens, and which of them are learnt), `images.py`, `audio.py`.
"""
