"""The same six sentences in the six languages whose modules ship with modenc."""

SENTENCES: dict[str, tuple[str, ...]] = {
    "en": (
        "Good morning!",
        "Thank you very much.",
        "Where is the library?",
        "It is raining today.",
        "The child is reading a book.",
        "My older brother works in a hospital.",
    ),
    "az": (
        "Sabahınız xeyir!",
        "Çox sağ olun.",
        "Kitabxana haradadır?",
        "Bu gün yağış yağır.",
        "Uşaq kitab oxuyur.",
        "Böyük qardaşım xəstəxanada işləyir.",
    ),
    "kk": (
        "Қайырлы таң!",
        "Көп рахмет.",
        "Кітапхана қайда?",
        "Бүгін жаңбыр жауып тұр.",
        "Бала кітап оқып отыр.",
        "Менің ағам ауруханада жұмыс істейді.",
    ),
    "ky": (
        "Кутман таң!",
        "Чоң рахмат.",
        "Китепкана кайда?",
        "Бүгүн жамгыр жаап жатат.",
        "Бала китеп окуп жатат.",
        "Менин агам ооруканада иштейт.",
    ),
    "ug": (
        "خەيرلىك ئەتىگەن!",
        "كۆپ رەھمەت.",
        "كۈتۈپخانا قەيەردە؟",
        "بۈگۈن يامغۇر يېغىۋاتىدۇ.",
        "بالا كىتاب ئوقۇۋاتىدۇ.",
        "مېنىڭ ئاكام دوختۇرخانىدا ئىشلەيدۇ.",
    ),
    "uz": (
        "Xayrli tong!",
        "Katta rahmat.",
        "Kutubxona qayerda?",
        "Bugun yomg‘ir yog‘yapti.",
        "Bola kitob o‘qiyapti.",
        "Mening akam shifoxonada ishlaydi.",
    ),
}
"""Code → sentences; the sentences of one position are translations of each other."""
